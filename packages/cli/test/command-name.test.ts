import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildProgram } from '../src/command-line/tree.ts'
import { COMMANDS } from '../src/command-line/command-names.ts'
import { asTyped, commandName } from '../src/process/command-name.ts'

const at = (cwd: string) => ({ env: {}, cwd, checkout: '/src/break fall' })

test('hints name the command as the user started it', () => {
  const started = ['node', 'main.ts', 'npm-start', 'sessions']
  assert.equal(commandName(started, at('/src/break fall')), 'npm start --')
  assert.equal(commandName(started, at('/home/me')), "npm --prefix '/src/break fall' start --")
  assert.equal(commandName(['node', 'main.ts', 'sessions'], at('/home/me')), 'breakfall')
  const npx = { ...at('/home/me'), env: { npm_lifecycle_event: 'npx' } }
  assert.equal(commandName(['node', 'main.ts', 'sessions'], npx), 'npx breakfall')
})

test('only the name of a command is replaced, not a path, a sentence or another word', () => {
  const typed = (text: string): string => asTyped(text, 'npm start --')
  assert.equal(
    typed('see: breakfall show X, or "breakfall up"; under breakfall up: breakfall resume X'),
    'see: npm start -- show X, or "npm start -- up"; under npm start -- up: npm start -- resume X',
  )
  assert.equal(typed('For help: breakfall --help'), 'For help: npm start -- --help')
  for (const text of [
    'npm --prefix /src/breakfall start -- go',
    'if a breakfall command fails this way',
    'breakfall: no such file',
    'Breakfall will retry',
    'io.breakfall show',
    'PostgreSQL does not let the user breakfall in.',
    'createdb -h db -U breakfall fleet',
  ])
    assert.equal(typed(text), text)
  assert.equal(asTyped('breakfall run', 'breakfall'), 'breakfall run')
})

test('every command is known by its name', () => {
  const { commands } = buildProgram(() => undefined)
  assert.deepEqual(
    commands.map((command) => command.name()).filter((name) => !COMMANDS.includes(name)),
    [],
  )
})
