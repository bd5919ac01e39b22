/** `breakfall export`: a session as JSON lines, on stdout or in a private file. The console opens them without a daemon. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { resolve } from 'node:path'
import type { DaemonClient } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import { errorCode } from '@breakfall/faults/internal'
import type { Context } from '../../command-line/context.ts'
import { findDaemon, oneShotClient } from '../../daemon/find.ts'
import { cmd } from '../../process/command-name.ts'
import { refuseUnreadable } from '../../process/state-folder.ts'
import { reasonFor } from '../../process/system-errors.ts'
import { fullId, ifNotFound } from '../../sessions/lookup.ts'

export type ExportOptions = { readonly redact?: 'text'; readonly output?: string }

export async function exportCommand(context: Context, input: string, options: ExportOptions): Promise<void> {
  const { config } = context
  const found = await findDaemon(config)
  if (found !== undefined) return exportFrom(oneShotClient(found.address), context, input, options)
  refuseUnreadable(config.stateDir)
  const { withTemporaryDaemon } = await import('../../daemon/in-process.ts')
  await withTemporaryDaemon(config, (client) => exportFrom(client, context, input, options))
}

// ---- details ----

async function exportFrom(
  client: DaemonClient,
  { out }: Context,
  input: string,
  { redact, output }: ExportOptions,
): Promise<void> {
  const id = await fullId(client, input)
  if ((await client.session(id).catch(ifNotFound)) === undefined)
    throw new Fault('not_found', {
      error: `No session has the id ${id}. Nothing was exported. See: ${cmd('sessions')}`,
    })
  const bundle = toItsEnd(await client.export(id, redact === undefined ? {} : { redact }))
  if (output === undefined) {
    // Bytes unchanged: a bundle is JSON, in which control characters are escaped.
    for await (const bytes of bundle) if (!process.stdout.write(bytes)) await once(process.stdout, 'drain')
    if (out.json) out.result({ sessionId: id })
    return
  }
  const file = resolve(output)
  const written = await writePrivately(file, bundle)
  if (out.json) out.result({ sessionId: id, file, bytes: written })
  else out.line(`wrote session ${id} to ${file} (${written} bytes, readable by you only)`)
}

/** A started answer can only break off: its reason stays with the daemon. */
async function* toItsEnd(bundle: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* bundle
  } catch (cause) {
    const happened = 'The daemon stopped sending the session before its end, so the bundle is not complete.'
    const advice = `"${cmd('doctor')}" says whether the journal is damaged.`
    throw new Fault('daemon_unreachable', { message: { happened, advice }, cause })
  }
}

/** Written under another name first: a truncated file would look complete. A name that nobody can have put a link at. */
async function writePrivately(file: string, bundle: AsyncIterable<Uint8Array>): Promise<number> {
  const part = `${file}.${randomBytes(6).toString('hex')}.part`
  try {
    let written = 0
    const fd = openSync(part, 'wx', 0o600)
    try {
      for await (const bytes of bundle) {
        for (let at = 0; at < bytes.length;) at += writeSync(fd, bytes, at)
        written += bytes.length
      }
    } finally {
      closeSync(fd)
    }
    renameSync(part, file)
    return written
  } catch (cause) {
    rmSync(part, { force: true })
    const code = errorCode(cause)
    if (code === undefined) throw cause
    throw new Fault('invalid_request', { error: `Cannot write ${file}: ${reasonFor(code)}. Nothing was kept.`, cause })
  }
}
