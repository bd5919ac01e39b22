/** `breakfall undo` and `breakfall diff`: show what a session's turns did to files, and undo it. */
import type { DaemonClient, SessionViewer } from '@breakfall/client'
import { Fault, isFault } from '@breakfall/faults'
import type { Session, SessionCheckpoints, Undo, Undone } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { cmd } from '../../process/command-name.ts'
import { currentFolder } from '../../process/current-folder.ts'
import { stopCommand } from '../../render/processes.ts'
import { fullId, ifNotFound, noSuchId } from '../../sessions/lookup.ts'
import { findViewer } from '../../sessions/viewer.ts'
import { counted, utcTime } from '../../text/amounts.ts'
import { printable } from '../../text/printable.ts'

export type UndoOptions = {
  readonly turn?: string
  readonly to?: string
  readonly dryRun?: boolean
  readonly force?: boolean
  readonly list?: boolean
  readonly redo?: boolean
  readonly path?: readonly string[]
}

export type DiffOptions = {
  readonly turn?: string
  readonly from?: string
  readonly stat?: boolean
}

export function undoCommand(context: Context, options: UndoOptions, id: string | undefined): Promise<void> {
  if (options.redo === true && (options.to ?? options.turn) !== undefined)
    throw new Fault('invalid_request', { error: '--redo takes back the last undo; omit --turn and --to' })
  return onSession(context, id, options.turn, async (client, { sessionId, turnId }) => {
    if (options.list === true) return showList(await client.checkpoints(sessionId), context)
    const checkpoint = options.redo === true ? lastSafety(await client.checkpoints(sessionId)) : options.to
    const request: Undo = {
      ...(checkpoint === undefined ? {} : { checkpoint }),
      ...(checkpoint === undefined && turnId !== undefined ? { toTurn: turnId } : {}),
      ...(options.path === undefined ? {} : { paths: [...options.path] }),
      ...(options.dryRun === true ? { dryRun: true } : {}),
      ...(options.force === true ? { force: true } : {}),
    }
    try {
      showUndone(await client.undo(sessionId, request), context, request.dryRun === true)
    } catch (thrown) {
      if (isFault(thrown) && !context.out.json)
        for (const path of thrown.report.paths ?? []) context.out.say(`  conflict  ${printable(path)}`)
      throw await withUndoAdvice(thrown, client, sessionId)
    }
  })
}

export function diffCommand(context: Context, options: DiffOptions, id: string | undefined): Promise<void> {
  const { out } = context
  return onSession(context, id, options.turn, async (client, { sessionId, turnId }) => {
    const query = {
      ...(options.from === undefined ? {} : { checkpoint: options.from }),
      // One turn: up to the next. Without a turn: everything since before the last one.
      ...(options.from === undefined && turnId !== undefined ? { turn: turnId, to: 'next' } : {}),
    }
    if (!out.json && options.stat !== true) return out.write(colouredPatch(await client.patch(sessionId, query), out))
    const { files } = await client.diff(sessionId, query)
    if (out.json) return out.result({ outcome: 'finished', sessionId, files })
    for (const { path, change } of files) out.line(`${MARKS[change]} ${printable(path)}`)
  })
}

// ---- details, in the order they are used above ----

const CONFLICT_ADVICE =
  'Restore only other files with --path FILE, or overwrite these with --force: a safety checkpoint keeps what is there now.'

/** The fault with what a user of the command line can do about it. */
async function withUndoAdvice(thrown: unknown, client: DaemonClient, sessionId: string): Promise<unknown> {
  if (!isFault(thrown)) return thrown
  if (thrown.category === 'checkpoint_conflict') return thrown.with({ message: { advice: CONFLICT_ADVICE } })
  if (thrown.category !== 'workspace_busy') return thrown
  const { processes } = await client.processes(sessionId).catch(() => ({ processes: [] }))
  if (processes.length === 0) return thrown
  const commands = processes.map((process) => stopCommand(process)).join('; ')
  return thrown.with({ message: { advice: `Stop what runs in the background, and try again: ${commands}` } })
}

/** A patch as `git diff` colours it. */
const colouredPatch = (patch: string, out: Context['out']): string =>
  patch
    .split('\n')
    .map((line) => {
      const style = PATCH_STYLES.find(([start]) => line.startsWith(start))?.[1]
      return style === undefined ? line : out.style(style, line)
    })
    .join('\n')

/** The first that fits: a header starts like a changed line. */
const PATCH_STYLES = [
  ['diff ', 'bold'],
  ['--- ', 'bold'],
  ['+++ ', 'bold'],
  ['@@', 'cyan'],
  ['+', 'green'],
  ['-', 'red'],
] as const

const MARKS = { added: 'A', changed: 'M', removed: 'D' } as const

type Found = { readonly sessionId: string; readonly turnId: string | undefined }

/** With the running daemon, or a temporary one. */
async function onSession(
  { config }: Context,
  id: string | undefined,
  turn: string | undefined,
  act: (client: DaemonClient, found: Found) => Promise<void>,
): Promise<void> {
  const { kind, viewer } = await findViewer(config, '')
  const found = await sessionMeant(viewer, id, turn)
  const onClient = (client: DaemonClient): Promise<void> =>
    act(client, found).catch((thrown: unknown) => {
      throw id === undefined ? withOtherSessions(thrown, found.sessionId) : thrown
    })
  if (kind === 'live') return onClient(viewer)
  const { withTemporaryDaemon } = await import('../../daemon/in-process.ts')
  return withTemporaryDaemon(config, onClient)
}

/** The last session of a folder may have changed nothing while an earlier one did. */
function withOtherSessions(thrown: unknown, sessionId: string): unknown {
  if (!isFault(thrown) || thrown.category !== 'checkpoint_not_found') return thrown
  const advice = `This is about ${sessionId}, the last session in this folder. For another one, list them with "${cmd('sessions')} --here" and pass its id.`
  const advised = thrown.with({ message: { advice } })
  return thrown.errorRaw === thrown.error ? advised.with({ errorRaw: advised.error }) : advised
}

/** By the id of a session or a turn; without one, the last session of this folder. */
async function sessionMeant(viewer: SessionViewer, id: string | undefined, turn: string | undefined): Promise<Found> {
  const turnId = turn === undefined ? undefined : await fullId(viewer, turn)
  if (id === undefined) return { sessionId: (await lastHere(viewer)).id, turnId }
  const wholeId = await fullId(viewer, id)
  const session = await viewer.session(wholeId).catch(ifNotFound)
  if (session !== undefined) return { sessionId: session.id, turnId }
  const found = await viewer.turn(wholeId).catch(ifNotFound)
  if (found === undefined) throw noSuchId(wholeId)
  return { sessionId: found.sessionId, turnId: turnId ?? found.id }
}

async function lastHere(viewer: SessionViewer): Promise<Session> {
  const folder = currentFolder()
  const [session] = (await viewer.sessionPage({ workspace: folder, limit: 1 })).sessions
  if (session !== undefined) return session
  throw new Fault('not_found', { error: `No session has worked in ${folder}. Name one: ${cmd('sessions')}` })
}

function lastSafety({ checkpoints }: SessionCheckpoints): string {
  const safety = checkpoints.findLast(({ kind }) => kind === 'safety')
  if (safety !== undefined) return safety.id
  throw new Fault('checkpoint_not_found', { error: 'Nothing was undone in this session, so there is nothing to redo.' })
}

function showUndone(undone: Undone, { out }: Context, isPreview: boolean): void {
  if (out.json) return out.result({ outcome: 'finished', ...undone })
  const { files, restored, removed, conflicts, skipped, safety } = undone
  for (const { path, change } of files) out.line(`${MARKS[change]} ${printable(path)}`)
  for (const path of conflicts) out.line(`conflict  ${printable(path)}: changed outside the box; needs --force`)
  for (const { path, because } of skipped) out.say(`left alone: ${printable(path)} (${because})`)
  if (restored + removed === 0) return out.line('Nothing differs: the files are as they were then.')
  if (isPreview)
    return out.line(`would restore ${restored} and remove ${removed}. This was a preview: nothing was changed.`)
  out.line(
    `${restored} restored, ${removed} removed. To take this back: ${cmd('undo')} --redo${safety === null ? '' : ` (or --to ${safety})`}`,
  )
}

function showList({ mode, checkpoints, skipped, bytes }: SessionCheckpoints, { out }: Context): void {
  if (out.json) {
    for (const checkpoint of checkpoints) out.data(checkpoint)
    return out.result({ outcome: 'finished', mode, checkpoints: checkpoints.length, skipped, bytes })
  }
  if (checkpoints.length === 0)
    out.line(mode === 'off' ? 'no checkpoints: they are off in this session' : 'no checkpoints yet')
  for (const { id, at, kind, label, turnId, files, during } of checkpoints) {
    const what =
      kind === 'safety' ? (label ?? 'before an undo') : turnId === null ? 'of the new box' : `before turn ${turnId}`
    out.line(
      `${id}  ${utcTime(at)}  ${what}  ${counted(files, 'file')}${during.length === 0 ? '' : '  (a command was running)'}`,
    )
  }
  for (const { at, because } of skipped) out.line(`skipped  ${utcTime(at)}  ${because}`)
}
