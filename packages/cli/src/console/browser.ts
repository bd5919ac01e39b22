/** Opens an address in the user's browser, if this machine has a screen. */
import { spawn } from 'node:child_process'
import type { Environment } from '@breakfall/supervisor/platform'

/** False if there is no browser to open, or it does not start. */
export function openBrowser(url: string, env: Environment, platform: NodeJS.Platform = process.platform): Promise<boolean> {
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
