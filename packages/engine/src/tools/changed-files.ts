/**
 * Which files a turn changed: the file tools name theirs, and what commands changed is the difference between the turn's checkpoint
 * and now.
 *
 * I1  Asked once, when the turn ends and its readers have the whole answer. A turn that ran no command asks nothing.
 * I2  What is not known is called unknown. It never fails a turn, and delays its end only up to a limit.
 */
import type { EventDraftOf } from '@breakfall/wire'
import { FILES_MAX } from '@breakfall/wire/turn'
import { inWorkspace } from './file-tools.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { Runners } from '../runner/runners.ts'
import { turnOf } from '../boxes/turn-checkpoint.ts'

/** The fields of the event that ends the turn. `stopped`: do not wait any longer. */
export async function changedFiles(
  runners: Runners,
  session: OwnedSession,
  stopped?: AbortSignal,
): Promise<Pick<EventDraftOf<'turn-end'>, 'filesChanged' | 'filesUnknown'>> {
  const { turn } = session.fold
  if (turn === null || !turn.record.filesUnknown) return {} // I1
  const { runnerId, box } = session.data
  if (runnerId === null || (box.checkpoints ?? 'off') === 'off') return UNKNOWN
  const limit = session.clock.timeout(LIMIT_MS) // I2
  const signal = stopped === undefined ? limit : AbortSignal.any([stopped, limit])
  try {
    const { client } = await runners.connect(runnerId, session.row.epoch, signal)
    const { checkpoints } = await client.listCheckpoints(session.boxId, { signal })
    const before = checkpoints.find(({ label }) => turnOf(label) === turn.id)
    if (before === undefined) return UNKNOWN
    const { files } = await client.diffCheckpoint(session.boxId, before.id, 'now', { signal })
    const named = turn.record.filesChanged.map((path) =>
      session.box.seen === null ? path : inWorkspace(path, session.box.seen),
    )
    const all = new Set([...files.map(({ path }) => path), ...named]) // a checkpoint leaves out what git ignores
    const filesChanged = [...all].toSorted().slice(0, FILES_MAX)
    return before.during.length === 0 ? { filesChanged } : { filesChanged, ...UNKNOWN } // it may hold what commands did
  } catch (thrown) {
    session.observer.log.debug(
      { err: thrown, sessionId: session.id, turnId: turn.id },
      'not known which files the turn changed',
    )
    return UNKNOWN // I2
  }
}

// ---- details ----

const UNKNOWN = { filesUnknown: true } as const

const LIMIT_MS = 2_000 // usually a tenth of a second; longer for a large folder
