import assert from 'node:assert/strict'
import { test } from 'node:test'
import { cmd, commandName } from '../src/process/command-name.ts'

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
