/** Runs one agent once with a private home folder: `node play.ts NAME URL`. `breakfall trial` calls it for every run. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { AGENTS } from './agents.ts'
import { programOf } from './install.ts'

const [name = '', url = ''] = process.argv.slice(2)
const agent = AGENTS.find((row) => row.name === name)
if (agent === undefined) throw new Error(`There is no agent ${name}`)
const home = mkdtempSync(join(tmpdir(), 'breakfall-agent-'))
const { before, args, env = {} } = agent.launch(url, home)
const environment = {
  ...process.env,
  PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`,
  HOME: home,
  XDG_CONFIG_HOME: join(home, '.config'),
  XDG_DATA_HOME: join(home, '.local/share'),
  XDG_CACHE_HOME: join(home, '.cache'),
  XDG_STATE_HOME: join(home, '.local/state'),
  TERM: 'dumb',
  NO_COLOR: '1',
  CI: '1',
  ...env,
}
try {
  if (before !== undefined) spawnSync(programOf(agent), before, { env: environment, stdio: 'ignore' })
  const { status } = spawnSync(programOf(agent), args, { env: environment, stdio: ['ignore', 'inherit', 'inherit'] })
  process.exitCode = status ?? 1
} finally {
  rmSync(home, { recursive: true, force: true, maxRetries: 3 })
}
