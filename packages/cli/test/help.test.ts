import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { EXIT_CODES, POLICY_DEFAULTS } from '@breakfall/faults'
import { POLICY_KEYS } from '@breakfall/wire'
import { buildProgram } from '../src/commands/index.ts'

const program = buildProgram(() => undefined)
const helpOf = (name: string): string => {
  let text = ''
  const command = program.commands.find((child) => child.name() === name)
  command?.configureOutput({ writeOut: (chunk) => (text += chunk) }).outputHelp()
  return text.replaceAll(/\s+/g, ' ')
}

const OF_TURNS: readonly string[] = [
  'park',
  'parkMsMax',
  'outcomeUnknown',
  'stepsMax',
  'repeatsMax',
  'compactionsMax',
  'boxIdleMs',
  'approve',
  'approveMsMax',
]

test('the help of run, up and gateway names the default of each policy', () => {
  for (const name of ['run', 'up', 'gateway'])
    for (const key of POLICY_KEYS) {
      if (name === 'gateway' && OF_TURNS.includes(key)) continue
      const flag = `--${key.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)} `
      const [, about = ''] = helpOf(name).split(flag)
      const [, value] = /\(default: (\S+)\)/.exec(about) ?? []
      assert.equal(value, String(POLICY_DEFAULTS[key] ?? 'none'), `${name} ${flag}`)
    }
})

test("the help of run has the runner's default limits, and all exit codes", () => {
  const defaults = readFileSync(new URL('../../runner/src/lib/defaults.ts', import.meta.url), 'utf8')
  const number = (key: string): number =>
    Number(new RegExp(`${key}: ([\\d_]+)`).exec(defaults)?.[1]?.replaceAll('_', ''))
  const help = helpOf('run')
  assert.ok(help.includes(`memoryMb ${number('memoryMb')}, pids ${number('pids')}`), help)
  for (const code of Object.values(EXIT_CODES)) assert.match(help, new RegExp(`\\b${code} [a-z]`))
})

test('every command has a description and an example to copy', () => {
  const leaves = program.commands.flatMap((child) => (child.commands.length > 0 ? child.commands : [child]))
  assert.ok(leaves.length >= 16)
  for (const command of leaves) {
    let text = ''
    command.configureOutput({ writeOut: (chunk) => (text += chunk) }).outputHelp()
    assert.match(text, /Examples:\n {2}\S/, command.name())
    assert.notEqual(command.description(), '')
  }
})

test('the help of the program shows every command in a group', () => {
  const text = program.helpInformation()
  for (const heading of ['Run an agent', 'Keep it running', 'See what happened', 'Set it up', 'Run a fleet'])
    assert.ok(text.includes(`\n${heading}:\n`), heading)
  assert.ok(!text.includes('\nCommands:\n'), text)
})

test('a command lists no flags that mean nothing to it', () => {
  for (const flag of ['--park', '--park-ms-max', '--outcome-unknown', '--steps-max', '--state-dir'])
    assert.ok(!helpOf('gateway').includes(`${flag} `), flag)
  assert.ok(!helpOf('chaos').includes('--state-dir'))
  assert.ok(helpOf('gateway').includes('--deadline-ms ') && helpOf('runner').includes('--state-dir '))
  assert.ok(!/\b(?:turn|step)\b/.test(helpOf('gateway')), 'a gateway knows requests, no turns')
})
