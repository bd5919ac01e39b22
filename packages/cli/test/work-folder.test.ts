import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuseWide } from '../src/workspace/work-folder.ts'

test('no run works in what belongs to the system or holds the home folder; others are fine', () => {
  for (const folder of ['/proc', '/proc/4711', '/sys/kernel', '/dev/shm', '/'])
    assert.throws(() => refuseWide(folder, '/var/lib/state'), { category: 'invalid_request' }, folder)
  for (const folder of ['/srv/project', '/system', '/devices']) refuseWide(folder, '/var/lib/state')
})
