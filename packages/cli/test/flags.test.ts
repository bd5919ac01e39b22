import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commonFlagsLast } from '../src/command-line/flags.ts'

test('common flags may stand before the command', () => {
  for (const [given, wanted] of [
    ['--json sessions', 'sessions --json'],
    ['--json config show', 'config show --json'],
    ['--state-dir /x --json show id', 'show id --state-dir /x --json'],
    ['--state-dir=/x up', 'up --state-dir=/x'],
    ['--json run -- --json', 'run --json -- --json'],
    ['run --json prompt', 'run --json prompt'],
    ['--json', '--json'],
    ['--help', '--help'],
    ['--json --help', '--help --json'],
    ['--state-dir', '--state-dir'],
  ] as const)
    assert.equal(commonFlagsLast(given.split(' ')).join(' '), wanted)
})
