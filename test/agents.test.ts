/** Every agent of `npm run agents` has a line in the how-to page, and launches with the base URL that it is given. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { AGENTS } from '../bench/agents/agents.ts'
import { root } from './sources.ts'

const page = readFileSync(join(root, 'docs/how-to/agents.md'), 'utf8')

test('every agent that we run has a line that says how to set its base URL and how to undo it', () => {
  for (const { name } of AGENTS) {
    const [agent = ''] = name.split(',')
    const line = page.split('\n').find((one) => one.startsWith(`| ${agent} |`))
    assert.ok(line !== undefined, `docs/how-to/agents.md has no line for ${agent}`)
    assert.ok(line.split('|').filter((cell) => cell.trim() !== '').length === 4, `${agent}: API, set and undo`)
  }
})

test('every agent is given the base URL by an argument, a variable or a file in its own home folder', (t) => {
  for (const agent of AGENTS) {
    const home = mkdtempSync(join(tmpdir(), 'breakfall-agents-'))
    t.after(() => rmSync(home, { recursive: true, force: true }))
    const launch = agent.launch('http://127.0.0.1:4000/v1', home)
    const files = readdirSync(home, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    assert.match([JSON.stringify(launch), ...files].join('\n'), /http:\/\/127\.0\.0\.1:4000/, agent.name)
  }
})

test('npm run agents says what it takes, and refuses what it does not', () => {
  const main = join(root, 'bench/agents/main.ts')
  const run = (...flags: string[]) => spawnSync(process.execPath, [main, ...flags], { encoding: 'utf8' })
  const help = run('--help')
  assert.deepEqual([help.status, help.stderr], [0, ''])
  for (const { name } of AGENTS) assert.ok(help.stdout.includes(name), name)
  for (const flags of [['--agent', 'codex'], ['--agents', 'codex;no such'], ['codex']]) {
    const { status, stderr } = run(...flags)
    assert.deepEqual([status, stderr.endsWith(help.stdout), / at /.test(stderr)], [2, true, false], stderr)
  }
})
