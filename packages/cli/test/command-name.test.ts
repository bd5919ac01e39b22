import assert from 'node:assert/strict'
import { test } from 'node:test'
import { asTyped, cmd, commandName } from '../src/process/command-name.ts'

const at = (cwd: string) => ({ env: {}, cwd, checkout: '/src/break fall' })

test('hints name the command as the user started it', () => {
  const started = ['node', 'main.ts', 'npm-start', 'sessions']
  assert.equal(commandName(started, at('/src/break fall')), 'npm start --')
  assert.equal(commandName(started, at('/home/me')), "npm --prefix '/src/break fall' start --")
  assert.equal(commandName(['node', 'main.ts', 'sessions'], at('/home/me')), 'breakfall')
  const npx = { ...at('/home/me'), env: { npm_lifecycle_event: 'npx' } }
  assert.equal(commandName(['node', 'main.ts', 'sessions'], npx), 'npx breakfall')
})

test('a sentence names a command as it can be typed', () => {
  assert.equal(cmd('show 0198'), 'breakfall show 0198')
})

test('a command that another package names in a sentence is what this user types', () => {
  for (const [sentence, typed] of [
    ['Start it with "breakfall up", or check its address.', 'Start it with "npm start -- up", or check its address.'],
    ['Set KEY, or store a key: breakfall login.', 'Set KEY, or store a key: npm start -- login.'],
    ['breakfall: The daemon at /srv/breakfall is away', 'breakfall: The daemon at /srv/breakfall is away'],
    ['createdb -U breakfall app', 'createdb -U breakfall app'],
  ] as const)
    assert.equal(asTyped(sentence, 'npm start --'), typed)
})
