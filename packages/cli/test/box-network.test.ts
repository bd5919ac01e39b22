/** What `--network` and `[box] network` mean. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkOf } from '../src/config/box.ts'

test('a network is none, the machine’s, or a list of names and presets', () => {
  assert.equal(networkOf('none'), 'none')
  assert.equal(networkOf('host'), 'host')
  assert.deepEqual(networkOf('npm'), { allow: ['preset:npm'] })
  assert.deepEqual(networkOf('npm, packages.example.org,*.example.org:22'), {
    allow: ['preset:npm', 'packages.example.org', '*.example.org:22'],
  })
  assert.deepEqual(networkOf(['pypi', 'preset:go', 'private:intranet']), {
    allow: ['preset:pypi', 'preset:go', 'private:intranet'],
  })
  assert.throws(() => networkOf('some'), /The network is none, host, or names like example\.org and npm, .* got "some"/)
})
