/** `breakfall open`: the running daemon's console in a browser, with a ticket that is valid once. */
import type { DaemonClient } from '@breakfall/client'
import { openBrowser } from '../console/browser.ts'
import { builtConsole } from '../console/build.ts'
import type { Context } from '../context.ts'
import { oneShotClient, requireDaemon } from '../daemon/find.ts'
import type { Output } from '../render/output.ts'

export type OpenOptions = {
  /** Only prints the address. */
  readonly print?: boolean
}

export async function openCommand({ config, out }: Context, { print = false }: OpenOptions): Promise<void> {
  const { address, isDemo } = await requireDaemon(config)
  if (config.daemon.kind === 'local') await builtConsole() // the daemon's page says why if it fails
  const client = oneShotClient(address)
  const path = isDemo === true ? '/demo' : ''
  await openConsole(client, { out, path, browse: print ? undefined : config.childEnv, isBare: print })
}

export type OpenConsole = {
  readonly out: Output
  readonly browse: Context['config']['childEnv'] | undefined
  /** The screen to show, such as `/demo`. */
  readonly path?: string
  /** Prints the address alone, for a script. */
  readonly isBare?: boolean
}

/** `browse`: the environment to look for a browser in. Without it, the address is only printed. */
export async function openConsole(
  client: DaemonClient,
  { out, browse, path = '', isBare }: OpenConsole,
): Promise<void> {
  const { ticket, expiresAt } = await client.consoleTicket()
  const url = `${client.url}/#ticket=${ticket}${path === '' ? '' : `&to=${encodeURIComponent(path)}`}`
  const isOpened = browse !== undefined && (await openBrowser(url, browse))
  if (out.json) out.data({ event: 'console', url, expiresAt, opened: isOpened })
  else if (isOpened) out.line(`console  opened in your browser: ${client.url}/`)
  else if (isBare === true) out.line(url)
  else out.line(`console  ${url}  (valid once, for two minutes)`)
}
