/** Opens the console, or any address, in the user's browser, if this machine has a screen. */
import { spawn } from 'node:child_process'
import type { DaemonClient } from '@breakfall/client'
import type { Environment } from '@breakfall/supervisor/platform'
import type { Output } from '../terminal/output.ts'

/** False if there is no browser to open, or it does not start. */
export function openBrowser(
  url: string,
  env: Environment,
  platform: NodeJS.Platform = process.platform,
): Promise<boolean> {
  const program = openerOf(env, platform)
  if (program === undefined) return Promise.resolve(false)
  return new Promise((resolve) => {
    const child = spawn(program, [url], { stdio: 'ignore', detached: true, env: { ...env } })
    child.once('error', () => resolve(false)) // not installed
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}

/** Pure. BROWSER, as xdg-open and others read it, may also be `true` or `echo` in tests and over SSH. */
export function openerOf(env: Environment, platform: NodeJS.Platform): string | undefined {
  if (platform === 'darwin') return 'open'
  const hasScreen = [env['DISPLAY'], env['WAYLAND_DISPLAY']].some((value) => value !== undefined && value !== '')
  const named = env['BROWSER'] ?? ''
  if (named !== '' && !named.includes('%s') && !named.includes(':')) return named
  return hasScreen || env['WSL_DISTRO_NAME'] !== undefined ? 'xdg-open' : undefined
}

export type OpenConsole = {
  readonly out: Output
  readonly browse: Environment | undefined
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
