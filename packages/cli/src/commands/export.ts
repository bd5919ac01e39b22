/** `breakfall export`: a session as JSON lines on stdout. The console opens them without a daemon. */
import { once } from 'node:events'
import type { Context } from '../context.ts'
import { oneShotClient, requireDaemon } from '../daemon/find.ts'
import { fullId } from '../sessions/ids.ts'

export type ExportOptions = { readonly redact?: 'text' }

export async function exportCommand({ config, out }: Context, given: string, { redact }: ExportOptions): Promise<void> {
  const client = oneShotClient((await requireDaemon(config)).address)
  const id = await fullId(client, given)
  // Bytes as they are: a bundle is JSON, in which control characters are escaped.
  for await (const bytes of await client.export(id, redact === undefined ? {} : { redact }))
    if (!process.stdout.write(bytes)) await once(process.stdout, 'drain')
  if (out.json) out.result({ sessionId: id })
}
