/** What `npm start -- WORDS` runs, for every command there is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from 'commander'
import { startWords, unclearPrompt } from '../src/command-line/npm-start.ts'
import { buildProgram } from '../src/commands/index.ts'

const program = buildProgram(() => undefined)
const start = (words: readonly string[]): readonly string[] => startWords(program, words)

/** Every command with its arguments filled in. */
const linesOf = (command: Command, path: readonly string[]): readonly (readonly string[])[] =>
  command.commands.length > 0
    ? [path, ...command.commands.flatMap((child) => linesOf(child, [...path, child.name()]))]
    : [[...path, ...command.registeredArguments.map(({ argChoices }) => argChoices?.[0] ?? '0198abcd')]]

const lines = program.commands.flatMap((command) => linesOf(command, [command.name()]))

test('every command runs, alone, with its arguments and with flags', () => {
  assert.ok(lines.length > 25 && lines.some((line) => line.join(' ') === 'mcp list'), `${lines.length} commands`)
  for (const line of lines)
    for (const words of [line, [...line, '--json'], [...line, '--help'], line.slice(0, 1)])
      assert.deepEqual(start(words), words)
})

test('a command keeps its flags if they come first', () => {
  assert.deepEqual(start(['--json', 'sessions']), ['sessions', '--json'])
  assert.deepEqual(start(['--json', 'fix it']), ['run', '--json', 'fix it'])
})

test('what follows a command is its own, also if it is too much: it is refused there, and never sent to a model', () => {
  for (const line of [
    'rm 0198abcd 0198abce 0198abcf',
    'trial -- node my agent.js',
    'trial node agent.mjs',
    'gateway --upstream URL --port 0',
    'explain stuff here now',
    'sessions foo',
    'doctor now',
    'up now',
    'show me what this does',
    'run the tests',
    'rm the old logs',
    'config is broken',
    'mcp servers are missing',
    'completion tomorrow',
  ])
    assert.deepEqual(start(line.split(' ')), line.split(' '))
})

test('one or two words are refused as a misspelled command if the first is nearly one, with or without flags', () => {
  for (const words of [
    ['session', 'list'],
    ['docter', 'please'],
    ['gatewya', 'start', '--port', '0'],
  ])
    assert.deepEqual(start(words), words)
  for (const word of ['docter', 'sesions', 'Doctor', 'upp']) assert.deepEqual(start([word]), [word])
  assert.deepEqual(start(['gatewya', '--upstream', 'URL']), ['gatewya', '--upstream', 'URL'])
  for (const words of [
    ['test'],
    ['fix'],
    ['fix', '--model', 'm'],
    ['fix', 'tests'],
    ['session', 'list', 'is', 'empty'],
  ])
    assert.deepEqual(start(words), ['run', ...words])
})

test('anything else is a prompt, also if it starts with the name of a command in quotes', () => {
  for (const words of [
    ['make the test pass'],
    ['run the tests and fix them'],
    ['up to date?'],
    ['make', 'the', 'test', 'pass'],
    ['--network', 'host', 'fetch it'],
    ['-'],
  ]) {
    assert.deepEqual(start(words), ['run', ...words])
    assert.equal(unclearPrompt(words), undefined)
  }
  assert.deepEqual(start([]), ['run'])
  assert.deepEqual(start(['run', 'fix it']), ['run', 'fix it'])
})

test('the help and the version are those of the program', () => {
  for (const words of [['--help'], ['-h'], ['--version'], ['help', 'run']]) assert.deepEqual(start(words), words)
})

test('words that a command takes, but that read like a prompt, are refused', () => {
  assert.equal(
    unclearPrompt(['run', 'the', 'tests']),
    "It is unclear where the prompt starts. Nothing was sent. Put it in quotes: breakfall run 'the tests', or breakfall run 'run the tests'",
  )
  assert.equal(
    unclearPrompt(['--json', 'rm', 'the', 'old', 'logs']),
    "rm takes ids of sessions, got the, old, logs. Nothing was deleted. To send it as a prompt: breakfall run 'rm the old logs'",
  )
  for (const line of ['run hi', 'run --model m fix it', 'rm 0198abcd 0198abce', 'rm logs', 'trial node agent.mjs', ''])
    assert.equal(unclearPrompt(line.split(' ')), undefined, line)
})
