/**
 * The session's box: created for its first tool call, named after the session. An idle session's box is released, and made or
 * started again for the next tool call.
 *
 * I1  The runner of the box is stored before the box can exist. After a crash, the next process knows which runner to ask.
 * I2  A released box is stored as in use before anything can start in it.
 * I3  A box that was lost is made again under a higher epoch: a request that is still on its way to the lost one, such as a second
 *     delivery of a start, is refused.
 */
import { Fault, type FaultCategory, isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Box, BoxCreate, Placement } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import type { SessionRow } from '../rows.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { type GiveUp, giveUp, isGiveUp } from '../turn/step-result.ts'
import type { RunnerAddress } from '../runner/endpoint.ts'
import { placementRequest } from '../runner/placement.ts'
import type { Runners } from '../runner/runners.ts'

/**
 * The record that such a box would have. Throws if the runner would refuse it: a session without a box could never run a tool. A runner that is
 * unreachable or hangs does not delay the session: then the first tool call reports the problem.
 */
export async function checkBox(runners: Runners, box: BoxCreate, placement?: Placement): Promise<Box | undefined> {
  try {
    return await checkOnce(runners, box, placement)
  } catch (thrown) {
    if (!isQuota(thrown) || !(await runners.makeRoom())) throw thrown
    return checkOnce(runners, box, placement)
  }
}

/**
 * The same for a session that is about to begin a turn: a turn without a box should not pay for a model's answer. Asks only a runner
 * that is connected and only if the box is not in use already, so it costs one short call.
 */
export async function checkSessionBox(runners: Runners, session: OwnedSession): Promise<void> {
  const { address } = runners
  const { tools, runnerId } = session.data
  if (session.box.seen !== null || tools.length === 0 || address === undefined) return
  if (runnerId !== null && runnerId !== address.runnerId) return
  await checkBox(runners, boxOf(runners, session))
}

async function checkOnce(runners: Runners, box: BoxCreate, placement?: Placement): Promise<Box | undefined> {
  const { checkMs } = runners.limits
  const over = new AbortController()
  let address: RunnerAddress | undefined
  try {
    const connecting = runners.connect(null, 0, over.signal, placementRequest({ placement, box }))
    let found = await runners.clock.within(connecting, checkMs)
    if (found === undefined && runners.isStarting) found = await runners.clock.within(connecting, START_MS)
    if (found === undefined) throw new Fault('runner_unreachable', { errorRaw: `no answer within ${checkMs} ms` })
    address = found.address
    return await found.client.checkBox(box, { signal: runners.clock.timeout(checkMs) })
  } catch (thrown) {
    if (isQuota(thrown) && address !== undefined && runners.isJoined(address)) return undefined // another one may have room by then
    if (isFault(thrown) && REFUSALS.has(thrown.category)) throw inSession(thrown)
    runners.log.debug({ err: thrown }, 'cannot check the box of a new session with the runner')
    return undefined
  } finally {
    over.abort()
  }
}

export async function ensureBox(
  runners: Runners,
  session: OwnedSession,
  client: RunnerClient,
  runnerId: string,
): Promise<Box | GiveUp> {
  if (session.box.seen !== null) return session.box.seen
  if (session.data.runnerId === null) await session.setData({ runnerId }) // I1
  const { boxMade, boxReleased = false } = session.data
  const box =
    boxMade && !boxReleased
      ? await existing(session, client)
      : await refusing(() => orNext(runners, session, runnerId, () => made(runners, session, client)))
  return isGiveUp(box) ? box : session.box.attach(box)
}

/** The runner has lost the box. Creates a new one, for this client; `filesKept` is true if its workspace is a host folder. */
export async function replaceBox(
  runners: Runners,
  session: OwnedSession,
  lost: RunnerClient,
): Promise<{ readonly filesKept: boolean; readonly client: RunnerClient } | GiveUp> {
  session.box.detach()
  await session.raiseEpoch(session.row.epoch) // I3
  const client = lost.withEpoch(session.row.epoch)
  await client.ownBox(session.boxId, { signal: session.signal })
  const box = await refusing(() => created(runners, session, client))
  if (isGiveUp(box)) return box
  session.box.attach(box)
  return { filesKept: box.workspace.kind === 'host', client }
}

/** The box that a session may have at its runner, for the list of boxes to remove. */
export type BoxRemoval = { readonly boxId: string; readonly runnerId: string; readonly epoch: number }

/** A box may exist as soon as its runner is known, even if its creation was never recorded. */
export const boxesOf = ({ id, epoch, data }: SessionRow): readonly BoxRemoval[] =>
  data.runnerId === null ? [] : [{ boxId: data.box.id ?? id, runnerId: data.runnerId, epoch: epoch + 1 }]

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

async function existing(session: OwnedSession, client: RunnerClient): Promise<Box> {
  const box = await client.getBox(session.boxId, { signal: session.signal })
  if (box.state === 'stopped') {
    throw new Fault('box_stopped', { facts: { name: box.id }, boxId: box.id, boxState: box.state })
  }
  return box
}

/** Creates the box, or brings it back after a release. */
async function made(runners: Runners, session: OwnedSession, client: RunnerClient): Promise<Box> {
  const isPrivate = session.data.box.workspace === undefined
  const box =
    session.data.boxReleased === true && isPrivate
      ? await client.getBox(session.boxId, { signal: session.signal }) // its files are there, or lost with it
      : await created(runners, session, client)
  const running = await started(runners, session, client, box)
  await session.setData({ boxMade: true, boxReleased: false, about: running.about, level: running.isolation.level }) // I2
  return running
}

async function created(runners: Runners, session: OwnedSession, client: RunnerClient): Promise<Box> {
  const { signal } = session
  try {
    return await withRoom(runners, () => client.createBox(boxOf(runners, session), { signal }))
  } catch (thrown) {
    // Created before a crash, by a call whose answer was lost, or kept for its output: it has this session's id, so it belongs to it.
    if (isFault(thrown) && thrown.category === 'box_already_exists') return client.getBox(session.boxId, { signal })
    throw thrown
  }
}

const boxOf = (runners: Runners, session: OwnedSession): BoxCreate => ({
  ...runners.signed(session.data.box, session.createdAt),
  id: session.boxId,
})

async function started(runners: Runners, session: OwnedSession, client: RunnerClient, box: Box): Promise<Box> {
  const { signal } = session
  if (box.state === 'running' || session.data.boxReleased !== true) return box
  if (box.state === 'stopping') await client.stopBox(box.id, { signal }) // waits for the end of the release
  return withRoom(runners, () => client.startBox(box.id, { signal }))
}

/** Idle sessions give up their boxes when another session needs a box now. */
async function withRoom(runners: Runners, call: () => Promise<Box>): Promise<Box> {
  try {
    return await call()
  } catch (thrown) {
    if (!isQuota(thrown) || !(await runners.makeRoom())) throw thrown
    return call()
  }
}

/** One of several runners is full: the session gets its box on another one. */
async function orNext(
  runners: Runners,
  session: OwnedSession,
  runnerId: string,
  make: () => Promise<Box>,
): Promise<Box> {
  try {
    return await make()
  } catch (thrown) {
    if (!isQuota(thrown) || session.data.boxMade || !runners.isJoined({ runnerId })) throw thrown
    throw new Fault('runner_not_available', { reason: FULL, errorRaw: `runner ${runnerId} is full`, cause: thrown })
  }
}

export const FULL = 'runner_full'

const isQuota = (thrown: unknown): boolean => isFault(thrown) && thrown.category === 'quota_exceeded'

/** The model cannot fix a refused box, and without a box no tool can run. */
async function refusing(make: () => Promise<Box>): Promise<Box | GiveUp> {
  try {
    return await make()
  } catch (thrown) {
    if (!isFault(thrown) || !REFUSALS.has(thrown.category)) throw thrown
    const message = { action: 'The box of this session cannot be created, so no tool can run.' }
    return giveUp(thrown.with({ message }).report, { action: 'stop', because: 'not_retryable' })
  }
}
