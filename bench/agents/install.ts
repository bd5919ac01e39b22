/** Installs agents from npm into a cache outside the checkout, once per version. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import type { AgentRow } from './agents.ts'

const INSTALL_MS_MAX = 600_000

export const cacheFolder = (): string =>
  process.env['AGENTS_DIR'] ?? join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'breakfall', 'agents')

const folderOf = (agent: AgentRow): string => join(cacheFolder(), agent.bin)

export const programOf = (agent: AgentRow): string => join(folderOf(agent), 'node_modules', '.bin', agent.bin)

/** A sentence if the agent cannot be installed. */
export function install(agent: AgentRow): string | undefined {
  if (installedVersion(agent) === agent.version && existsSync(programOf(agent))) return undefined
  const folder = folderOf(agent)
  mkdirSync(join(folder, 'home'), { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"private":true}')
  const { status, stderr, error } = spawnSync(
    'npm',
    ['install', '--no-audit', '--no-fund', '--loglevel=error', `${agent.package}@${agent.version}`],
    {
      cwd: folder,
      env: { ...process.env, HOME: join(folder, 'home') },
      encoding: 'utf8',
      timeout: INSTALL_MS_MAX,
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  )
  if (status === 0 && existsSync(programOf(agent))) return undefined
  const why = error?.message ?? stderr.trim().split('\n').at(-1) ?? ''
  return `${agent.package}@${agent.version} cannot be installed here: ${why || `npm exited with ${status}`}`
}

function installedVersion(agent: AgentRow): string | undefined {
  try {
    const text = readFileSync(join(folderOf(agent), 'node_modules', agent.package, 'package.json'), 'utf8')
    return (JSON.parse(text) as { version?: string }).version
  } catch {
    return undefined // not installed yet
  }
}
