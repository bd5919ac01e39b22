/**
 * The session's box: made at its first tool, named after the session.
 *
 * I1  Which runner has the box is durable before the box can exist: whoever comes after a crash knows whom to ask.
 */
import { Fault, isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Box } from '@breakfall/wire'
import type { LiveSession } from './live-session.ts'

const known = new WeakMap<LiveSession, Box>()

/** What is known of the box since this process last saw it. */
export const boxOf = (session: LiveSession): Box | undefined => known.get(session)

export async function ensureBox(session: LiveSession, client: RunnerClient, runnerId: string): Promise<Box> {
  const seen = known.get(session)
  if (seen !== undefined) return seen
  if (session.data.runnerId === null) await session.setData({ runnerId }) // I1
  const box = session.data.boxMade ? await existing(session, client) : await made(session, client)
  known.set(session, box)
  return box
}

/** The runner says that there is no such box, though there was. Made anew; true where its files are still there. */
export async function replaceBox(session: LiveSession, client: RunnerClient): Promise<{ filesKept: boolean }> {
  known.delete(session)
  const box = await created(session, client)
  known.set(session, box)
  return { filesKept: box.workspace.kind === 'host' }
}

export const isBoxGone = (thrown: unknown): boolean => isFault(thrown) && thrown.category === 'box_not_found'

// ---- details ----

async function existing(session: LiveSession, client: RunnerClient): Promise<Box> {
  const box = await client.getBox(session.boxId, { signal: session.signal })
  if (box.state === 'stopped') {
    throw new Fault('box_stopped', { facts: { name: box.id }, boxId: box.id, boxState: box.state })
  }
  return box
}

async function made(session: LiveSession, client: RunnerClient): Promise<Box> {
  const box = await created(session, client)
  await session.setData({ boxMade: true })
  return box
}

async function created(session: LiveSession, client: RunnerClient): Promise<Box> {
  const { signal } = session
  try {
    return await client.createBox({ ...session.data.box, id: session.boxId }, { signal })
  } catch (thrown) {
    // Made before a crash, or by a call whose answer got lost: it bears this session's id, so it is this session's.
    if (isFault(thrown) && thrown.category === 'box_already_exists') return client.getBox(session.boxId, { signal })
    throw thrown
  }
}
