import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuseUnsafeFolder } from '../src/commands/run/work-folder.ts'

test('runs are refused in system folders and in folders that contain the home folder', () => {
  for (const folder of ['/proc', '/proc/4711', '/sys/kernel', '/dev/shm', '/'])
    assert.throws(() => refuseUnsafeFolder(folder, '/var/lib/state'), { category: 'invalid_request' }, folder)
  for (const folder of ['/srv/project', '/system', '/devices']) refuseUnsafeFolder(folder, '/var/lib/state')
})
