/**
 * `read`, `write` and `edit`, over the runner's files.
 *
 * I1  The journal has what a file is and what it is to become before it is written. After an interruption, the file as it is now
 *     says whether it was written; if it is neither, that is unknown, and nothing is written over it.
 * I2  A file is replaced only if it is still what it was when it was read. So a request that arrives late, after it was repeated,
 *     changes nothing.
 */
import { type Fault, type FaultCategory, isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Box } from '@breakfall/wire'
import type { FileNote, ToolCall } from '../turn/state.ts'
import { ensureBox, isBoxGone, replaceBox } from '../boxes/box.ts'
import { type Edited, edited, HALF_CHARACTER, noteOf, textOf, wasWritten } from './file-bytes.ts'
import type { OwnedSession } from '../session/owned-session.ts'
import { forModel } from './output.ts'
import { type GiveUp, isGiveUp } from '../turn/step-result.ts'
import type { Runners } from '../runner/runners.ts'
import { callRunner } from '../boxes/runner-call.ts'
import { parseCall, READ_LIMITS, type ToolArguments } from './arguments.ts'
import { checkpointTurn } from '../boxes/turn-checkpoint.ts'
import { BOX_LOST, failedOutcome, type ToolOutcome, unknownOutcome } from '../turn/tool-outcome.ts'

export function runRead(
  runners: Runners,
  session: OwnedSession,
  input: ToolArguments['read'],
): Promise<ToolOutcome | GiveUp> {
  return onFiles(runners, session, async (client, box) => {
    const { bytes } = await client.readFile(session.boxId, inWorkspace(input.path, box), { signal: session.signal })
    const file = textOf(bytes)
    if (file.kind === 'binary') return failedOutcome(`${input.path} ${file.what} (${bytes.length} bytes).`)
    const lines = session.secrets.scrub(file.text).split('\n') // before anything is cut
    if (lines.at(-1) === '') lines.pop()
    const from = input.offset ?? 1
    const shown = lines.slice(from - 1, from - 1 + (input.limit ?? READ_LIMITS.lines))
    if (shown.length === 0 && lines.length > 0) {
      return failedOutcome(`${input.path} has ${lines.length} lines; there is nothing from line ${from} on.`)
    }
    const isPart = shown.length < lines.length
    const notes = [
      ...(isPart ? [`lines ${from} to ${from + shown.length - 1} of ${lines.length}`] : []),
      ...(file.note === '' ? [] : [file.note]),
    ]
    const note = notes.length === 0 ? '' : `\n[${notes.join('; ')}]`
    return { outcome: 'ok', text: (forModel(shown.join('\n')) || '(the file is empty)') + note }
  })
}

export function runWrite(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  input: ToolArguments['write'],
): Promise<ToolOutcome | GiveUp> {
  const bytes = Buffer.from(input.content)
  const text = `wrote ${bytes.length} bytes to ${input.path}`
  const becomes = (): Edited =>
    input.content.isWellFormed() ? { do: 'write', bytes } : { do: 'answer', outcome: failedOutcome(HALF_CHARACTER) }
  return changeFile(runners, session, call, input.path, { becomes, done: text, wasDone: text })
}

export function runEdit(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  input: ToolArguments['edit'],
): Promise<ToolOutcome | GiveUp> {
  const becomes = (found: FoundFile | Fault): Edited => {
    if (isFault(found)) throw found
    return edited(found.bytes, input)
  }
  const wasDone = 'edited (the edit was already there after an interruption)'
  return changeFile(runners, session, call, input.path, { becomes, done: `edited ${input.path}`, wasDone })
}

/** Whether the file of an interrupted call has what it was to get. */
export async function wasFileWritten(
  client: RunnerClient,
  session: OwnedSession,
  call: ToolCall,
  signal: AbortSignal,
): Promise<'yes' | 'no' | 'unknown'> {
  const { input } = parseCall(call.tool, call.arguments, session.data.tools)
  if (!('path' in input)) return 'unknown'
  const box = await client.getBox(session.boxId, { signal })
  const found = await readIfFile(client, session.boxId, inWorkspace(input.path, box), signal)
  return wasWritten(isFault(found) ? null : found.bytes, call.file)
}

// ---- details ----

const TRIES_MAX = 5
const CHANGED_SINCE = 'it was interrupted, and the file is neither what it was before nor what it was to become'

type FoundFile = { readonly bytes: Buffer; readonly etag: string }

type Change = {
  /** What becomes of a file, or why none can be changed. */
  readonly becomes: (found: FoundFile | Fault) => Edited
  readonly done: string
  /** Says that an interrupted write was made. */
  readonly wasDone: string
}

function changeFile(
  runners: Runners,
  session: OwnedSession,
  call: ToolCall,
  named: string,
  { becomes, done, wasDone }: Change,
): Promise<ToolOutcome | GiveUp> {
  const writing = new FileWriting(session, call)
  return onFiles(runners, session, async (client, box) => {
    const path = inWorkspace(named, box)
    for (let tries = 0; tries < TRIES_MAX; tries += 1) {
      const found = await readIfFile(client, session.boxId, path, session.signal)
      const before = isFault(found) ? null : found.bytes
      const open = writing.judge(before)
      if (open === 'unknown') return unknownOutcome(CHANGED_SINCE)
      if (open === 'yes') return { outcome: 'ok', text: wasDone }
      const change = becomes(found)
      if (change.do === 'answer') return change.outcome
      try {
        await writing.write(client, box, path, noteOf(before, change.bytes), change.bytes, ifSame(found)) // I2
        return { outcome: 'ok', text: done }
      } catch (thrown) {
        // Another write came in between, so ours was not applied: check the file again.
        if (!isFault(thrown) || thrown.category !== 'precondition_failed') throw thrown
      }
    }
    return failedOutcome(`${named} kept changing while it was being changed; nothing was written.`)
  })
}

/** I2: a file that cannot be read is replaced without a comparison, or the runner refuses. */
function ifSame(found: FoundFile | Fault): Condition {
  if (!isFault(found)) return { ifMatch: found.etag }
  return found.category === 'file_not_found' ? { ifNoneMatch: '*' } : {}
}

type Condition = { readonly ifMatch?: string; readonly ifNoneMatch?: '*' }

/** The writes of one call. I1 */
class FileWriting {
  readonly #session: OwnedSession
  readonly #call: ToolCall
  /** A write whose answer was lost. */
  #open: { readonly note: FileNote | undefined } | null
  #noted: FileNote | undefined

  constructor(session: OwnedSession, call: ToolCall) {
    this.#session = session
    this.#call = call
    this.#noted = call.file
    this.#open = session.calls.mayHaveStarted(call.callId) ? { note: call.file } : null
  }

  /** Whether an earlier write of this call was made: then it is not made again. `no` also without one. */
  judge(current: Buffer | null): 'yes' | 'no' | 'unknown' {
    return this.#open === null ? 'no' : wasWritten(current, this.#open.note)
  }

  async write(
    client: RunnerClient,
    box: Box,
    path: string,
    note: FileNote,
    bytes: Buffer,
    condition: Condition,
  ): Promise<void> {
    const [session, { tool, callId }] = [this.#session, this.#call]
    await checkpointTurn(session, client, box)
    if (note.before !== this.#noted?.before || note.after !== this.#noted.after) {
      const { id: turnId } = session.currentTurn
      await session.append({ type: 'tool-output', turnId, callId, stream: 'stdout', text: '', file: note }) // I1
      this.#noted = note
    }
    session.observer.reached(`before:${tool}`)
    session.calls.starting(callId)
    const earlier = this.#open
    this.#open = { note }
    try {
      await client.writeFile(session.boxId, path, bytes, { ...condition, signal: session.signal })
    } catch (thrown) {
      // This one was refused, but an earlier one may still arrive.
      if (isFault(thrown) && thrown.category === 'precondition_failed') this.#open = earlier
      throw thrown
    }
    session.observer.reached(`after:${tool}`)
  }
}

/** The fault if there is no file that can be read. */
async function readIfFile(
  client: RunnerClient,
  boxId: string,
  path: string,
  signal: AbortSignal,
): Promise<FoundFile | Fault> {
  try {
    return await client.readFile(boxId, path, { signal })
  } catch (thrown) {
    if (isFault(thrown) && UNREADABLE.has(thrown.category)) return thrown
    throw thrown
  }
}

const UNREADABLE: ReadonlySet<FaultCategory> = new Set([
  'file_not_found',
  'invalid_request',
  'forbidden',
  'payload_too_large',
] satisfies FaultCategory[])

function onFiles(
  runners: Runners,
  session: OwnedSession,
  work: (client: RunnerClient, box: Box) => Promise<ToolOutcome>,
): Promise<ToolOutcome | GiveUp> {
  return callRunner(runners, session, async (client, runnerId) => {
    const inBox = async (now: RunnerClient): Promise<ToolOutcome | GiveUp> => {
      const box = await ensureBox(runners, session, now, runnerId)
      return isGiveUp(box) ? box : work(now, box)
    }
    try {
      return await inBox(client)
    } catch (thrown) {
      if (!isBoxGone(thrown)) throw thrown
      const replaced = await replaceBox(runners, session, client)
      if (isGiveUp(replaced)) return replaced
      return replaced.filesKept ? inBox(replaced.client) : BOX_LOST
    }
  })
}

/** Tools whose calls note the file that they write. */
export const NOTES_FILE: ReadonlySet<string> = new Set(['write', 'edit'])

/** Models like absolute paths; the runner takes paths relative to the workspace and refuses those outside it. */
export function inWorkspace(path: string, box: Box): string {
  const root = box.workspace.path.replace(/\/+$/, '')
  if (path === root) return '.'
  return path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path.replace(/^\.\//, '')
}
