/** `breakfall output`: all bytes that a tool's command printed, from the runner. The journal cuts long outputs. */
import { isUtf8 } from 'node:buffer'
import { once } from 'node:events'
import type { DaemonClient } from '@breakfall/client'
import { Fault, isFault } from '@breakfall/faults'
import type { Context } from '../context.ts'
import { findViewer } from '../daemon/find.ts'
import type { Output } from '../render/output.ts'
import { journalledOutput, type JournalledOutput } from '../sessions/journalled-output.ts'
import { ifNotFound } from '../sessions/lookup.ts'
import { cmd } from '../process/command-name.ts'

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
    const { withTemporaryDaemon } = await import('../daemon/in-process.ts')
    await withTemporaryDaemon(config, print)
  } catch (thrown) {
    if (inJournal === 'cut' || !isFault(thrown) || thrown.category !== 'exec_not_found') throw thrown
    printText(inJournal, turn.sessionId, execId, options, out)
  }
}

// ---- details, in the order they are used above ----

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
