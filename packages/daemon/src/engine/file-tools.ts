/**
 * `read`, `write` and `edit`, over the runner's files.
 *
 * I1  The journal has what a file is and what it is to become before it is written. After an interruption, the file as it is now
 *     says whether it was written; if it is neither, that is unknown, and nothing is written over it.
 */
import { type Fault, type FaultCategory, isFault } from '@breakfall/faults'
import type { RunnerClient } from '@breakfall/runner/client'
import type { Box } from '@breakfall/wire'
import type { FileNote, ToolCall } from '../turn/state.ts'
import { ensureBox, isBoxGone, replaceBox } from './box.ts'
import { edited, HALF_CHARACTER, noteOf, textOf, wasWritten } from './file-bytes.ts'
import type { LiveSession } from './live-session.ts'
import { forModel } from './output.ts'
import { type GiveUp, isGiveUp } from './performed.ts'
import type { Ports } from './ports.ts'
import { callRunner } from './runner-call.ts'
import { READ_LIMITS, type ToolArguments } from './tools.ts'
import { checkpointTurn } from './turn-checkpoint.ts'
import { BOX_LOST, failedOutcome, type ToolOutcome, unknownOutcome } from './tool-outcome.ts'

export function runRead(
  ports: Ports,
  session: LiveSession,
  given: ToolArguments['read'],
): Promise<ToolOutcome | GiveUp> {
  return onFiles(ports, session, async (client, box) => {
    const { bytes } = await client.readFile(session.boxId, inWorkspace(given.path, box), { signal: session.signal })
    const file = textOf(bytes)
    if (file.kind === 'binary') return failedOutcome(`${given.path} ${file.what} (${bytes.length} bytes).`)
    const lines = session.secrets.scrub(file.text).split('\n') // before anything is cut
    if (lines.at(-1) === '') lines.pop()
    const from = given.offset ?? 1
    const shown = lines.slice(from - 1, from - 1 + (given.limit ?? READ_LIMITS.lines))
    if (shown.length === 0 && lines.length > 0) {
      return failedOutcome(`${given.path} has ${lines.length} lines; there is nothing from line ${from} on.`)
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
  ports: Ports,
  session: LiveSession,
  call: ToolCall,
  given: ToolArguments['write'],
): Promise<ToolOutcome | GiveUp> {
  const writing = new FileWriting(ports, session, call)
  const bytes = Buffer.from(given.content)
  return onFiles(ports, session, async (client, box) => {
    if (!given.content.isWellFormed()) return failedOutcome(HALF_CHARACTER)
    const path = inWorkspace(given.path, box)
    const found = await readIfFile(client, session, path)
    const before = isFault(found) ? null : found.bytes // it replaces whatever is there, or fails
    const open = writing.judge(before)
    if (open === 'unknown') return unknownOutcome(CHANGED_SINCE)
    if (open !== 'yes') await writing.write(client, box, path, noteOf(before, bytes), bytes)
    return { outcome: 'ok', text: `wrote ${bytes.length} bytes to ${given.path}` }
  })
}

export function runEdit(
  ports: Ports,
  session: LiveSession,
  call: ToolCall,
  given: ToolArguments['edit'],
): Promise<ToolOutcome | GiveUp> {
  const writing = new FileWriting(ports, session, call)
  return onFiles(ports, session, async (client, box) => {
    const path = inWorkspace(given.path, box)
    for (let tries = 0; tries < EDIT_TRIES_MAX; tries += 1) {
      const found = await readIfFile(client, session, path)
      const open = writing.judge(isFault(found) ? null : found.bytes)
      if (open === 'unknown') return unknownOutcome(CHANGED_SINCE)
      if (open === 'yes') return { outcome: 'ok', text: 'edited (the edit was already there after an interruption)' }
      if (isFault(found)) throw found
      const { bytes, etag } = found
      const change = edited(bytes, given)
      if (change.do === 'answer') return change.outcome
      try {
        await writing.write(client, box, path, noteOf(bytes, change.bytes), change.bytes, etag)
        return { outcome: 'ok', text: `edited ${given.path}` }
      } catch (thrown) {
        // Another write came in between, so ours was not applied: check the file again.
        if (!isFault(thrown) || thrown.category !== 'precondition_failed') throw thrown
      }
    }
    return failedOutcome(`${given.path} kept changing while it was being edited; nothing was written.`)
  })
}

// ---- details ----

const EDIT_TRIES_MAX = 5
const CHANGED_SINCE = 'it was interrupted, and the file is neither what it was before nor what it was to become'

/** The writes of one call. I1 */
class FileWriting {
  readonly #ports: Ports
  readonly #session: LiveSession
  readonly #call: ToolCall
  /** A write whose answer was lost. */
  #open: { readonly note: FileNote | undefined } | null
  #noted: FileNote | undefined

  constructor(ports: Ports, session: LiveSession, call: ToolCall) {
    this.#ports = ports
    this.#session = session
    this.#call = call
    this.#noted = call.file
    this.#open = session.unstartedCalls.has(call.callId) ? null : { note: call.file }
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
    ifMatch?: string,
  ): Promise<void> {
    const [session, { tool, callId }] = [this.#session, this.#call]
    await checkpointTurn(this.#ports, session, client, box)
    if (note.before !== this.#noted?.before || note.after !== this.#noted.after) {
      const { id: turnId } = session.currentTurn
      await session.append({ type: 'tool-output', turnId, callId, stream: 'stdout', text: '', file: note }) // I1
      this.#noted = note
    }
    this.#ports.failpoint(`before:${tool}`)
    session.unstartedCalls.delete(callId)
    const earlier = this.#open
    this.#open = { note }
    try {
      await client.writeFile(session.boxId, path, bytes, { ifMatch, signal: session.signal })
    } catch (thrown) {
      // This one was refused, but an earlier one may still arrive.
      if (isFault(thrown) && thrown.category === 'precondition_failed') this.#open = earlier
      throw thrown
    }
    this.#ports.failpoint(`after:${tool}`)
  }
}

/** The fault if there is no file that can be read. */
async function readIfFile(
  client: RunnerClient,
  session: LiveSession,
  path: string,
): Promise<{ readonly bytes: Buffer; readonly etag: string } | Fault> {
  try {
    return await client.readFile(session.boxId, path, { signal: session.signal })
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
  ports: Ports,
  session: LiveSession,
  work: (client: RunnerClient, box: Box) => Promise<ToolOutcome>,
): Promise<ToolOutcome | GiveUp> {
  return callRunner(ports, session, async (client, runnerId) => {
    const inBox = async (): Promise<ToolOutcome | GiveUp> => {
      const box = await ensureBox(ports, session, client, runnerId)
      return isGiveUp(box) ? box : work(client, box)
    }
    try {
      return await inBox()
    } catch (thrown) {
      if (!isBoxGone(thrown)) throw thrown
      const replaced = await replaceBox(ports, session, client)
      if (isGiveUp(replaced)) return replaced
      return replaced.filesKept ? inBox() : BOX_LOST
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
