/**
 * `@anthropic-ai/sandbox-runtime` as its users run it: the command `srt`, once for each command. Installed on demand beside
 * this file, because nothing else needs it; `socat` and `ripgrep`, which it wants, are unpacked there if they are missing.
 */
import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const SANDBOX_RUNTIME = { version: '0.0.83' } as const

const folder = fileURLToPath(new URL('.sandbox-runtime/', import.meta.url))
const program = join(folder, 'node_modules/@anthropic-ai/sandbox-runtime/dist/cli.js')

export type SandboxRuntime = { run(command: readonly string[]): Promise<void> }

/** Or the reason why it cannot take part. */
export async function sandboxRuntime(): Promise<SandboxRuntime | string> {
  if (!existsSync(program)) {
    const failure = install()
    if (failure !== undefined) return failure
  }
  try {
    await run(['true'])
    return { run }
  } catch (error) {
    return `it does not work here: ${String(error)}`.slice(0, 300)
  }
}

// ---- details ----

/** No network and nothing writable but the folder: what a box has by default. */
const SETTINGS = {
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowWrite: ['.'], denyWrite: [] },
}

function run(command: readonly string[]): Promise<void> {
  const args = [program, '--settings', join(folder, 'settings.json'), ...command]
  const env = {
    ...process.env,
    PATH: `${process.env['PATH'] ?? ''}:${join(folder, 'usr/bin')}`,
    LD_LIBRARY_PATH: LIBRARIES,
  }
  const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] })
  return new Promise((resolve, reject) => {
    let said = ''
    child.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
    child.once('error', reject)
    child.once('close', (code) => {
      if (code === 0) resolve()
      else reject(new Error(said.trim() || `exit code ${code}`))
    })
  })
}

const LIBRARIES = ['x86_64', 'aarch64'].map((name) => join(folder, `usr/lib/${name}-linux-gnu`)).join(':')

const UNPACK = `for name in socat libwrap0 ripgrep; do apt-get download "$name"; done; for file in *.deb; do dpkg -x "$file" .; done; true`

function install(): string | undefined {
  mkdirSync(folder, { recursive: true })
  const dependencies = { '@anthropic-ai/sandbox-runtime': SANDBOX_RUNTIME.version }
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, dependencies }))
  writeFileSync(join(folder, 'settings.json'), JSON.stringify(SETTINGS))
  try {
    const options = { cwd: folder, stdio: 'ignore', timeout: 300_000 } as const
    execFileSync('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts'], options)
    execFileSync('sh', ['-c', UNPACK], options)
    return undefined
  } catch (error) {
    return `it could not be installed: ${String(error)}`.slice(0, 300)
  }
}
