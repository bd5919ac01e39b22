/** `breakfall output`: all bytes that a tool's command printed, from the runner. The journal cuts long outputs. */
import { isUtf8 } from 'node:buffer'
import { once } from 'node:events'
import type { DaemonClient } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { Context } from '../context.ts'
import { findViewer } from '../daemon/find.ts'
import type { Output } from '../render/output.ts'
import { ifNotFound } from '../sessions/lookup.ts'

export type OutputOptions = { readonly stream?: 'stdout' | 'stderr' }

type Stream = 'stdout' | 'stderr'
type Client = Pick<DaemonClient, 'turn' | 'output'>

/** Asks the running daemon. If there is none, a temporary one asks the runner. */
export async function outputCommand({ config, out }: Context, execId: string, options: OutputOptions): Promise<void> {
  const turnId = turnIdIn(execId)
  const found = await findViewer(config, '')
  if (found.kind === 'live') return print(found.viewer, turnId, execId, options, out)
  if ((await found.viewer.turn(turnId).catch(ifNotFound)) === undefined) throw unknownExec(execId)
  const { withTemporaryDaemon } = await import('../daemon/in-process.ts')
  await withTemporaryDaemon(config, (client) => print(client, turnId, execId, options, out))
}

// ---- details, in the order they are used above ----

const EXEC_ID = /^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-\d+-\d+(?:\.\d+)?$/

/** The id of an exec begins with the id of its turn. */
function turnIdIn(execId: string): string {
  const [, turnId] = EXEC_ID.exec(execId) ?? []
  if (turnId !== undefined) return turnId
  throw new Fault('invalid_request', {
    error: `${execId} is not the id of a command's output. "breakfall run" names it where it cuts an output, and each tool-call event has it as execId`,
  })
}

const unknownExec = (execId: string): Fault =>
  new Fault('exec_not_found', { error: `No turn has run a command with the id ${execId}`, execId })

/** The command's stdout goes to ours, its stderr to ours. With `--json`, both are lines on stdout. */
async function print(
  client: Client,
  turnId: string,
  execId: string,
  options: OutputOptions,
  out: Output,
): Promise<void> {
  const turn = await client.turn(turnId).catch(ifNotFound)
  if (turn === undefined) throw unknownExec(execId)
  const bytes: Partial<Record<Stream, number>> = {}
  for (const stream of options.stream === undefined ? (['stdout', 'stderr'] as const) : [options.stream]) {
    let offset = 0
    for await (const chunk of await client.output(turn.sessionId, execId, stream)) {
      if (out.json) out.data({ stream, offset, ...content(Buffer.from(chunk)) })
      else if (!process[stream].write(chunk)) await once(process[stream], 'drain')
      offset += chunk.length
    }
    bytes[stream] = offset
  }
  if (out.json) out.result({ execId, sessionId: turn.sessionId, bytes })
}

/** As in the events of a runner: text if it is text, base64 otherwise. */
const content = (chunk: Buffer): { data: string } | { dataBase64: string } =>
  isUtf8(chunk) ? { data: chunk.toString('utf8') } : { dataBase64: chunk.toString('base64') }
