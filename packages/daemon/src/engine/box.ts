/**
 * The session's box: created for its first tool call, named after the session.
 *
 * I1  The runner of the box is stored before the box can exist. After a crash, the next process knows which runner to ask.
 */
import { Fault, type FaultCategory, isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import { type Box, type BoxCreate, invalidRequest } from '@breakfall/wire'
import { within } from '@breakfall/supervisor'
import type { LiveSession } from './live-session.ts'
import { type GiveUp, giveUp, isGiveUp } from './performed.ts'
import type { Ports } from './ports.ts'

/**
 * The record that such a box would have. Throws if the runner would refuse it: a session without a box could never run a tool. A runner that is
 * unreachable or hangs does not delay the session: then the first tool call reports the problem.
 */
export async function checkBox(ports: Ports, box: BoxCreate): Promise<Box | undefined> {
  const { checkMs } = ports.limits
  const over = new AbortController()
  try {
    const connecting = ports.runner.connect(null, 0, over.signal)
    let found = await within(connecting, checkMs)
    if (found === undefined && ports.runner.isStarting) found = await within(connecting, START_MS)
    if (found === undefined) throw new Fault('runner_unreachable', { errorRaw: `no answer within ${checkMs} ms` })
    return await found.client.checkBox(box, { signal: AbortSignal.timeout(checkMs) })
  } catch (thrown) {
    if (isFault(thrown) && REFUSALS.has(thrown.category)) throw inSession(thrown)
    ports.log.debug({ err: thrown }, 'cannot check the box of a new session with the runner')
    return undefined
  } finally {
    over.abort()
  }
}

export async function ensureBox(session: LiveSession, client: RunnerClient, runnerId: string): Promise<Box | GiveUp> {
  if (session.box !== null) return session.box
  if (session.data.runnerId === null) await session.setData({ runnerId }) // I1
  const box = session.data.boxMade ? await existing(session, client) : await made(session, client)
  if (!isGiveUp(box)) session.box = box
  return box
}

/** The runner has lost the box. Creates a new one; `filesKept` is true if its workspace is a host folder. */
export async function replaceBox(session: LiveSession, client: RunnerClient): Promise<{ filesKept: boolean } | GiveUp> {
  session.box = null
  const box = await created(session, client)
  if (isGiveUp(box)) return box
  session.box = box
  return { filesKept: box.workspace.kind === 'host' }
}

export const isBoxGone = (thrown: unknown): boolean => isFault(thrown) && thrown.category === 'box_not_found'

// ---- details, in the order they are used above ----

const START_MS = 5_000 // a runner that is starting on this machine reports its address within about a second

/** How a runner refuses a box because of its request. */
const REFUSALS: ReadonlySet<FaultCategory> = new Set([
  'invalid_request',
  'quota_exceeded',
  'isolation_unavailable',
] satisfies FaultCategory[])

/** The same refusal, with its fields as the session's request names them. */
function inSession(fault: Fault): Fault {
  const { errors } = fault.report
  return errors === undefined
    ? fault
    : invalidRequest(errors.map((error) => ({ ...error, field: `box.${error.field}` })))
}

async function existing(session: LiveSession, client: RunnerClient): Promise<Box> {
  const box = await client.getBox(session.boxId, { signal: session.signal })
  if (box.state === 'stopped') {
    throw new Fault('box_stopped', { facts: { name: box.id }, boxId: box.id, boxState: box.state })
  }
  return box
}

async function made(session: LiveSession, client: RunnerClient): Promise<Box | GiveUp> {
  const box = await created(session, client)
  if (!isGiveUp(box)) await session.setData({ boxMade: true, about: box.about })
  return box
}

async function created(session: LiveSession, client: RunnerClient): Promise<Box | GiveUp> {
  const { signal } = session
  try {
    return await client.createBox({ ...session.data.box, id: session.boxId }, { signal })
  } catch (thrown) {
    // Created before a crash, or by a call whose answer was lost: it has this session's id, so it belongs to this session.
    if (isFault(thrown) && thrown.category === 'box_already_exists') return client.getBox(session.boxId, { signal })
    if (isFault(thrown) && REFUSALS.has(thrown.category)) {
      // The model cannot fix this, and without a box no tool can run.
      const message = { action: 'The box of this session cannot be created, so no tool can run.' }
      return giveUp(thrown.with({ message }).report, { action: 'stop', because: 'not_retryable' })
    }
    throw thrown
  }
}
