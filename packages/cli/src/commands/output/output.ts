/** `breakfall output`: all bytes that a tool's command printed, from the runner. The journal cuts long outputs. */
import { isUtf8 } from 'node:buffer'
import { once } from 'node:events'
import type { DaemonClient, SessionViewer } from '@breakfall/client'
import { Fault, isFault } from '@breakfall/faults'
import type { Turn } from '@breakfall/wire'
import type { Context } from '../../command-line/context.ts'
import { cmd } from '../../process/command-name.ts'
import { CUT_MARK } from '../../render/turn-view.ts'
import { ifNotFound } from '../../sessions/lookup.ts'
import { findViewer } from '../../sessions/viewer.ts'
import type { Output } from '../../terminal/output.ts'

export type OutputOptions = { readonly stream?: 'stdout' | 'stderr' }

type Stream = 'stdout' | 'stderr'
type Client = Pick<DaemonClient, 'output'>

/**
 * From the runner, by the running daemon or a temporary one. A box that was released has no outputs any more, unless the journal
 * cut them: then the journal has everything.
 */
export async function outputCommand({ config, out }: Context, execId: string, options: OutputOptions): Promise<void> {
  const turnId = turnIdIn(execId)
  const found = await findViewer(config, '')
  const turn = await found.viewer.turn(turnId).catch(ifNotFound)
  if (turn === undefined) throw unknownExec(execId)
  const inJournal = await journalledOutput(found.viewer, turn, callOf(execId))
  if (inJournal === 'unknown') throw unknownExec(execId)
  if (found.kind === 'offline' && inJournal !== 'cut' && inJournal.isExact)
    return printText(inJournal, turn.sessionId, execId, options, out)
  const print = (client: Client): Promise<void> => printFromRunner(client, turn.sessionId, execId, options, out)
  try {
    if (found.kind === 'live') return await print(found.viewer)
    const { withTemporaryDaemon } = await import('../../daemon/in-process.ts')
    await withTemporaryDaemon(config, print)
  } catch (thrown) {
    if (inJournal === 'cut' || !isFault(thrown) || thrown.category !== 'exec_not_found') throw thrown
    printText(inJournal, turn.sessionId, execId, options, out)
  }
}

// ---- details, in the order they are used above ----

/** An exec's output from the journal, if the journal has all of it. */
type JournalledOutput = {
  readonly stdout: string
  readonly stderr: string
  /** False: some bytes were not text, and only the runner has them. */
  readonly isExact: boolean
}

/** `cut`: the journal left out a part of it. `unknown`: the turn called no tool with this id. */
async function journalledOutput(
  viewer: Pick<SessionViewer, 'events' | 'session'>,
  { sessionId, firstSeq = 1, lastSeq }: Turn,
  execId: string,
): Promise<JournalledOutput | 'cut' | 'unknown'> {
  const last = lastSeq ?? (await viewer.session(sessionId)).lastSeq
  const over = new AbortController()
  const texts = { stdout: '', stderr: '' }
  let callId: string | undefined
  for await (const event of viewer.events(sessionId, { after: firstSeq - 1, signal: over.signal })) {
    if (event.type === 'tool-call' && event.execId === execId) ({ callId } = event)
    if (event.type === 'tool-output' && event.callId === callId) texts[event.stream] += event.text
    const isEnded = event.type === 'tool-result' && event.callId === callId
    if (isEnded || event.seq >= last) break
  }
  over.abort()
  if (callId === undefined) return 'unknown'
  if (CUT_MARK.test(texts.stdout)) return 'cut'
  return { ...texts, isExact: !`${texts.stdout}${texts.stderr}`.includes('\ufffd') }
}

const EXEC_ID = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d+-\d+(?:\.\d+)?$/

/** An exec's id starts with its turn's id. */
function turnIdIn(execId: string): string {
  const [, turnId] = EXEC_ID.exec(execId) ?? []
  if (turnId !== undefined) return turnId
  throw new Fault('invalid_request', {
    error: `${execId} is not the id of a command's output. "${cmd('run')}" names it when it cuts an output, and each tool-call event has it as execId`,
  })
}

/** A command that was started again has a number at the end. */
const callOf = (execId: string): string => execId.replace(/\.\d+$/, '')

const unknownExec = (execId: string): Fault =>
  new Fault('exec_not_found', { error: `No turn has run a command with the id ${execId}`, execId })

const streamsOf = ({ stream }: OutputOptions): readonly Stream[] =>
  stream === undefined ? ['stdout', 'stderr'] : [stream]

function printText(
  whole: JournalledOutput,
  sessionId: string,
  execId: string,
  options: OutputOptions,
  out: Output,
): void {
  const bytes: Partial<Record<Stream, number>> = {}
  for (const stream of streamsOf(options)) {
    const data = whole[stream]
    if (out.json && data !== '') out.data({ stream, offset: 0, data })
    else process[stream].write(data)
    bytes[stream] = Buffer.byteLength(data)
  }
  if (out.json) out.result({ execId, sessionId, bytes })
}

/** The command's stdout goes to ours, its stderr to ours. With `--json`, both are lines on stdout. */
async function printFromRunner(
  client: Client,
  sessionId: string,
  execId: string,
  options: OutputOptions,
  out: Output,
): Promise<void> {
  const bytes: Partial<Record<Stream, number>> = {}
  for (const stream of streamsOf(options)) {
    const kept = await client.output(sessionId, execId, stream)
    let offset = kept.from
    if (offset > 0) out.say(`the first ${offset} bytes of ${stream} are no longer kept`)
    for await (const chunk of kept) {
      if (out.json) out.data({ stream, offset, ...content(Buffer.from(chunk)) })
      else if (!process[stream].write(chunk)) await once(process[stream], 'drain')
      offset += chunk.length
    }
    bytes[stream] = offset
  }
  if (out.json) out.result({ execId, sessionId, bytes })
}

/** As in the events of a runner: text if it is text, base64 otherwise. */
const content = (chunk: Buffer): { data: string } | { dataBase64: string } =>
  isUtf8(chunk) ? { data: chunk.toString('utf8') } : { dataBase64: chunk.toString('base64') }
