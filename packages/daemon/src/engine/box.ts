/**
 * The session's box: made at its first tool, named after the session.
 *
 * I1  Which runner has the box is durable before the box can exist: whoever comes after a crash knows whom to ask.
 */
import { Fault, type FaultCategory, isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import { type Box, type BoxCreate, invalidRequest } from '@breakfall/wire'
import { within } from '@breakfall/supervisor'
import type { LiveSession } from './live-session.ts'
import { type GiveUp, giveUp, isGiveUp } from './performed.ts'
import type { Ports } from './ports.ts'

const known = new WeakMap<LiveSession, Box>()

/**
 * Throws where the runner would refuse such a box, so that nobody gets a session that can never run a tool. A runner that is
 * not there now, or hangs, says nothing, and a session does not wait for it: then the first tool finds out.
 */
export async function checkBox(ports: Ports, box: BoxCreate): Promise<void> {
  const { checkMs } = ports.limits
  const over = new AbortController()
  try {
    const connecting = ports.runner.connect(null, 0, over.signal)
    let found = await within(connecting, checkMs)
    if (found === undefined && ports.runner.isStarting) found = await within(connecting, START_MS)
    if (found === undefined) throw new Fault('runner_unreachable', { errorRaw: `no answer within ${checkMs} ms` })
    await found.client.checkBox(box, { signal: AbortSignal.timeout(checkMs) })
  } catch (thrown) {
    if (isFault(thrown) && REFUSALS.has(thrown.category)) throw inSession(thrown)
    ports.log.debug({ err: thrown }, 'the runner could not be asked about the box of a new session')
  } finally {
    over.abort()
  }
}

/** What is known of the box since this process last saw it. */
export const boxOf = (session: LiveSession): Box | undefined => known.get(session)

export async function ensureBox(session: LiveSession, client: RunnerClient, runnerId: string): Promise<Box | GiveUp> {
  const seen = known.get(session)
  if (seen !== undefined) return seen
  if (session.data.runnerId === null) await session.setData({ runnerId }) // I1
  const box = session.data.boxMade ? await existing(session, client) : await made(session, client)
  if (!isGiveUp(box)) known.set(session, box)
  return box
}

/** The runner says that there is no such box, though there was. Made anew; true where its files are still there. */
export async function replaceBox(session: LiveSession, client: RunnerClient): Promise<{ filesKept: boolean } | GiveUp> {
  known.delete(session)
  const box = await created(session, client)
  if (isGiveUp(box)) return box
  known.set(session, box)
  return { filesKept: box.workspace.kind === 'host' }
}

export const isBoxGone = (thrown: unknown): boolean => isFault(thrown) && thrown.category === 'box_not_found'

// ---- details, in the order they are used above ----

const START_MS = 5_000 // one that is being started on this machine says within about a second where it is

/** How a runner refuses a box for what was asked. */
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
  if (!isGiveUp(box)) await session.setData({ boxMade: true })
  return box
}

async function created(session: LiveSession, client: RunnerClient): Promise<Box | GiveUp> {
  const { signal } = session
  try {
    return await client.createBox({ ...session.data.box, id: session.boxId }, { signal })
  } catch (thrown) {
    // Made before a crash, or by a call whose answer got lost: it bears this session's id, so it is this session's.
    if (isFault(thrown) && thrown.category === 'box_already_exists') return client.getBox(session.boxId, { signal })
    if (isFault(thrown) && REFUSALS.has(thrown.category)) {
      // No mistake of the model's, and nothing that it could mend: without a box there is no turn.
      const message = { action: 'The box of this session cannot be created, so no tool can run.' }
      return giveUp(thrown.with({ message }).report, { action: 'stop', because: 'not_retryable' })
    }
    throw thrown
  }
}
