import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { completionScript } from '../src/commands/completion.ts'
import { buildProgram } from '../src/commands/index.ts'

const program = buildProgram(() => undefined)

/** What bash itself offers for the last word. */
function offered(...words: readonly string[]): readonly string[] {
  const ask = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _breakfall; printf "%s\\n" "${COMPREPLY[@]}"'
  const { stdout, stderr } = spawnSync(
    'bash',
    ['-c', `${completionScript('bash', program)}\n${ask}`, 'bash', ...words],
    {
      encoding: 'utf8',
    },
  )
  assert.equal(stderr, '')
  return stdout.split('\n').filter((word) => word !== '')
}

test('bash completes commands, subcommands and the flags of a command', () => {
  assert.deepEqual(offered('breakfall', 'r'), ['run', 'resume', 'runner', 'rm', 'runners'])
  assert.deepEqual(offered('breakfall', 'config', ''), ['show', 'example', '--help'])
  assert.deepEqual(offered('breakfall', 'config', 'show', '--o'), ['--origin'])
  assert.ok(!offered('breakfall', 'show', '--').includes('--origin'))
})

test("bash completes flags after a prompt and after another flag's value", () => {
  assert.deepEqual(offered('breakfall', 'run', 'show me', '--netw'), ['--network'])
  assert.deepEqual(offered('breakfall', 'run', 'config', '--netw'), ['--network'])
  assert.deepEqual(offered('breakfall', 'run', '--model', 'qwen3', '--netw'), ['--network'])
})

test('a flag or argument with choices completes them, and one without completes nothing', () => {
  assert.deepEqual(offered('breakfall', 'run', '--network', ''), [
    'none',
    'host',
    'npm',
    'pypi',
    'crates',
    'go',
    'github',
    'debian',
  ])
  assert.deepEqual(offered('breakfall', 'gateway', '--hold', 'a'), ['auto', 'answer'])
  assert.deepEqual(offered('breakfall', 'completion', 'z'), ['zsh'])
  assert.deepEqual(offered('breakfall', 'run', '--model', ''), [])
})

test('hidden flags stay hidden in every shell', () => {
  for (const shell of ['bash', 'zsh', 'fish'] as const) {
    const script = completionScript(shell, program)
    assert.ok(!script.includes('until-idle'), shell)
    assert.match(script, /liveness-ms/)
  }
})

for (const shell of ['zsh', 'fish'] as const) {
  const isThere = spawnSync(shell, ['--version']).status === 0
  test(`${shell} can read its script`, { skip: !isThere && `no ${shell} here` }, () => {
    const { status, stderr } = spawnSync(shell, ['-n', '/dev/stdin'], {
      input: completionScript(shell, program),
      encoding: 'utf8',
    })
    assert.equal(status, 0, stderr)
  })
}
