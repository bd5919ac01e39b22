/**
 * Brings a session's files back to the checkpoint before a turn, or to any other of its checkpoints.
 *
 * I1  Only while no turn of the session is in progress; a prompt that arrives meanwhile waits.
 * I2  In the next turn, the model learns that files were restored.
 */
import { Fault, isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Checkpoint, CheckpointDiff, CheckpointList, SessionCheckpoints, Undo, Undone } from '@breakfall/wire'
import type { SessionRow } from '../rows.ts'
import type { Engine } from '../loop/engine.ts'
import type { Runners } from '../runner/runners.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import type { SessionParts } from '../session/session-parts.ts'
import type { SessionLoader } from './loader.ts'
import { askRunner, runnerFault } from '../boxes/runner-call.ts'
import { turnOf } from '../boxes/turn-checkpoint.ts'

/** Which checkpoint: by its turn or its id; neither: that of the newest turn that has one. */
export type CheckpointChoice = { readonly toTurn?: string | undefined; readonly checkpoint?: string | undefined }

type UndoParts = {
  readonly runners: Runners
  readonly base: Pick<SessionParts, 'store' | 'clock'>
  readonly engine: Engine
  readonly loader: SessionLoader
}

export class Undoing {
  readonly #parts: UndoParts

  constructor(parts: UndoParts) {
    this.#parts = parts
  }

  async list(sessionId: string, signal: AbortSignal): Promise<SessionCheckpoints> {
    const row = await this.#row(sessionId)
    const mode = row.data.box.checkpoints ?? 'off'
    const list = await this.#read(row, signal, (client, boxId) => client.listCheckpoints(boxId, { signal }), NONE)
    const withTurn = <T extends { readonly label: string | null }>(entry: T): T & { turnId: string | null } => ({
      ...entry,
      turnId: turnOf(entry.label),
    })
    return { ...list, mode, checkpoints: list.checkpoints.map(withTurn), skipped: list.skipped.map(withTurn) }
  }

  async diff(sessionId: string, choice: CheckpointChoice, to: string, signal: AbortSignal): Promise<CheckpointDiff> {
    return this.#read(await this.#row(sessionId), signal, async (client, boxId) => {
      const list = await client.listCheckpoints(boxId, { signal })
      const { id } = chosen(list, choice)
      return client.diffCheckpoint(boxId, id, untilIn(list, id, to), { signal })
    })
  }

  async patch(sessionId: string, choice: CheckpointChoice, to: string, signal: AbortSignal): Promise<Buffer> {
    return this.#read(await this.#row(sessionId), signal, async (client, boxId) => {
      const list = await client.listCheckpoints(boxId, { signal })
      const { id } = chosen(list, choice)
      return client.patchOfCheckpoint(boxId, id, untilIn(list, id, to), { signal })
    })
  }

  /** A preview works at any time and at any daemon. A restore needs the session to be idle. */
  async undo(sessionId: string, request: Undo, signal: AbortSignal): Promise<Undone> {
    const row = await this.#row(sessionId)
    if (request.dryRun === true)
      return this.#read(row, signal, (client, boxId) => restored(client, boxId, request, signal))
    const done = await this.#parts.loader.use(sessionId, (session) =>
      session.admission.run(() => this.#undoOwned(session, request)),
    )
    if (done === undefined) throw noSession()
    if (done === 'owned') throw busy(row.turnId, 'another daemon is working on it')
    return done
  }

  // ---- details ----

  async #row(sessionId: string): Promise<SessionRow> {
    const row = await this.#parts.base.store.getSession(sessionId)
    if (row === undefined) throw noSession()
    return this.#parts.loader.peek(sessionId)?.row ?? row
  }

  /** The restore continues even if the caller disconnects: half an undo is worse than none. */
  async #undoOwned(session: OwnedSession, request: Undo): Promise<Undone> {
    const { turn, queue } = session.fold
    const turnId = turn?.id ?? queue[0]?.id
    if (turnId !== undefined) throw busy(turnId, `turn ${turnId} is ${turn?.parked ? 'parked' : 'under way'}`) // I1
    if (this.#parts.engine.isDriving(session)) throw busy(undefined, 'a turn is just ending')
    const { signal } = new AbortController()
    const undone = await this.#read(session.row, signal, (client, boxId) => restored(client, boxId, request, signal))
    await session.setData({ undoneAt: new Date(this.#parts.base.clock.now()).toISOString() }) // I2
    return undone
  }

  async #read<T>(
    row: SessionRow,
    signal: AbortSignal,
    work: (client: RunnerClient, boxId: string) => Promise<T>,
    without?: T,
  ): Promise<T> {
    const { runnerId, box } = row.data
    const boxId = box.id ?? row.id
    if (runnerId === null || (box.checkpoints ?? 'off') === 'off') {
      if (without !== undefined) return without
      throw noCheckpoints(runnerId === null && box.checkpoints !== 'off' ? NO_BOX : OFF)
    }
    try {
      return await askRunner(this.#parts.runners, row, signal, (client) => work(client, boxId)) // a restore twice is a restore
    } catch (thrown) {
      const isOff = isFault(thrown) && thrown.report.errors?.[0]?.field === 'checkpoints'
      if (!isOff && !(isFault(thrown) && thrown.category === 'box_not_found')) throw runnerFault(thrown, boxId)
      if (without !== undefined) return without
      if (isOff) throw noCheckpoints('The runner takes no checkpoints: it has no git.')
      throw noCheckpoints('Its box was removed, and its checkpoints with it.')
    }
  }
}

const NONE: CheckpointList = { checkpoints: [], skipped: [], bytes: 0 }
const NO_BOX = 'The session has not used a tool yet, so it has no checkpoint to compare with or to go back to.'
const OFF = 'The session has no checkpoints: create it with box.checkpoints "auto".'

async function restored(client: RunnerClient, boxId: string, request: Undo, signal: AbortSignal): Promise<Undone> {
  const { toTurn, checkpoint, ...rest } = request
  const { id, label } = chosen(await client.listCheckpoints(boxId, { signal }), { toTurn, checkpoint })
  const answer = await client.restoreCheckpoint(boxId, id, rest, { signal })
  return { ...answer, checkpoint: id, turnId: turnOf(label) }
}

function chosen({ checkpoints, skipped }: CheckpointList, { toTurn, checkpoint }: CheckpointChoice): Checkpoint {
  if (checkpoint !== undefined) {
    const found = checkpoints.find(({ id }) => id === checkpoint)
    if (found !== undefined) return found
    throw new Fault('checkpoint_not_found', { facts: { name: checkpoint } })
  }
  const turnId = toTurn ?? turnOf(checkpoints.findLast(({ label }) => turnOf(label) !== null)?.label ?? null)
  const found = checkpoints.find(({ label }) => turnId !== null && turnOf(label) === turnId)
  if (found !== undefined) return found
  const why = skipped.findLast(({ label }) => toTurn === undefined || turnOf(label) === toTurn)?.because
  const what = toTurn === undefined ? 'No turn of this session has a checkpoint.' : `Turn ${toTurn} has no checkpoint.`
  throw noCheckpoints(
    why === undefined ? `${what} Only a turn that used a tool that can write has one.` : `${what} ${why}`,
  )
}

/** `next`: what came before the following turn, so the difference is that of one turn. */
function untilIn({ checkpoints }: CheckpointList, id: string, to: string): string {
  if (to !== 'next') return to
  const at = checkpoints.findIndex((checkpoint) => checkpoint.id === id)
  const turnId = turnOf(checkpoints[at]?.label ?? null)
  const next = checkpoints.slice(at + 1).find(({ label, kind }) => kind === 'safety' || turnOf(label) !== turnId)
  return next?.id ?? 'now'
}

const noCheckpoints = (error: string): Fault => new Fault('checkpoint_not_found', { error })
const noSession = (): Fault => new Fault('not_found', { facts: { name: 'such session' } })

const busy = (turnId: string | undefined | null, detail: string): Fault =>
  new Fault('workspace_busy', {
    facts: { detail },
    message: { advice: 'Wait until the turn has ended, or cancel it, and try again.' },
    turnId: turnId ?? undefined,
  })
