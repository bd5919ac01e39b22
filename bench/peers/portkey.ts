/**
 * Portkey's gateway in its own process, for the comparison. Installed on demand beside this file, because nothing else needs
 * it. Its current version breaks every stream under the newest `@hono/node-server` ("TypeError: immutable"), so this
 * dependency is pinned to the last version found to work.
 */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { closedPort } from '../../test/kit/tcp-server.ts'

export const PORTKEY = { version: '1.15.2', nodeServer: '1.13.7' } as const

const folder = fileURLToPath(new URL('.portkey/', import.meta.url))
const program = join(folder, 'node_modules/@portkey-ai/gateway/build/start-server.js')
const START_LOOKS_MAX = 100

export type Portkey = { readonly url: string; readonly pid: number; stop(): void }

/** Or the reason why it cannot take part. */
export async function startPortkey(): Promise<Portkey | string> {
  if (process.platform !== 'linux') return 'its CPU time is read from /proc'
  if (!existsSync(program)) {
    const failure = install()
    if (failure !== undefined) return failure
  }
  const port = await closedPort()
  const child = spawn(process.execPath, [program, `--port=${port}`, '--headless'], { stdio: 'ignore' })
  const url = `http://127.0.0.1:${port}/v1`
  for (let looks = 0; looks < START_LOOKS_MAX; looks++) {
    if (
      await fetch(url).then(
        () => true,
        () => false,
      )
    ) {
      return { url, pid: child.pid ?? 0, stop: () => void child.kill('SIGKILL') }
    }
    await sleep(100)
  }
  child.kill('SIGKILL')
  return 'it did not start'
}

/** What each request has to say: which dialect, and the server's address. */
export const portkeyHeaders = (upstream: string): Record<string, string> => ({
  'x-portkey-provider': 'openai',
  'x-portkey-custom-host': upstream,
  authorization: 'Bearer none',
})

// ---- details ----

function install(): string | undefined {
  mkdirSync(folder, { recursive: true })
  const manifest = {
    private: true,
    dependencies: { '@portkey-ai/gateway': PORTKEY.version },
    overrides: { '@hono/node-server': PORTKEY.nodeServer },
  }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  try {
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error'], {
      cwd: folder,
      stdio: 'ignore',
    })
    return undefined
  } catch {
    return 'it could not be installed (no network?)'
  }
}
