/** What `npm start -- WORDS` runs, for every command there is. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from 'commander'
import { startWords } from '../src/command-line/npm-start.ts'
import { buildProgram } from '../src/command-line/tree.ts'

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

test('several sessions can be removed, and what follows two dashes is not counted', () => {
  for (const line of ['rm 0198abcd 0198abce 0198abcf', 'trial -- node my agent.js', 'gateway --upstream URL --port 0'])
    assert.deepEqual(start(line.split(' ')), line.split(' '))
})

test('a single word that is nearly a command is refused as one, and not sent to a model', () => {
  for (const word of ['docter', 'sesions', 'Doctor', 'upp']) assert.deepEqual(start([word]), [word])
  for (const words of [['test'], ['fix'], ['docter', 'please']]) assert.deepEqual(start(words), ['run', ...words])
})

test('anything else is a prompt, also if it starts with the name of a command', () => {
  for (const words of [
    ['make the test pass'],
    ['run the tests and fix them'],
    ['show', 'me', 'what', 'this', 'does'],
    ['run', 'the', 'tests'],
    ['rm', 'the', 'old', 'logs'],
    ['config', 'is', 'broken'],
    ['mcp', 'servers', 'are', 'missing'],
    ['completion', 'tomorrow'],
    ['--network', 'host', 'fetch it'],
    ['-'],
  ])
    assert.deepEqual(start(words), ['run', ...words])
  assert.deepEqual(start([]), ['run'])
  assert.deepEqual(start(['run', 'fix it']), ['run', 'fix it'])
})
