/** Mounts that cannot work are refused before a run starts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import { asMountRefusal, mountRefusal } from '../src/commands/run/mounts.ts'

const given = { settings: ['/srv/data'], isHere: true, level: undefined, isMissing: () => false }
const mount = (path: string, mode: 'ro' | 'rw' = 'ro') => ({ path, mode })

test('a folder that is missing is named with the flag or the setting that names it', () => {
  const missing = { ...given, isMissing: () => true }
  assert.match(
    mountRefusal([mount('/srv/data')], missing)?.error ?? '',
    /^There is no folder \/srv\/data, which \[box\] mounts in your config\.toml names\. Nothing started\./,
  )
  assert.match(
    mountRefusal([mount('/other')], missing)?.error ?? '',
    /^There is no folder \/other, which --mount names\./,
  )
  assert.equal(mountRefusal([mount('/other')], { ...missing, isHere: false }), undefined)
})

test('without a sandbox a read-only mount is refused, and the advice works: remove it, or allow writing', () => {
  const process = { ...given, level: 'process' }
  assert.match(
    mountRefusal([mount('/other')], process)?.error ?? '',
    /Remove it from --mount: commands can read it anyway\. Or write \/other:rw/,
  )
  assert.equal(mountRefusal([mount('/other', 'rw')], process), undefined)
  assert.equal(mountRefusal([], process), undefined)
  assert.equal(mountRefusal([mount('/other')], given), undefined)
})

test('what the runner refuses is named by its flag, and the whole system by what it would show', () => {
  const told = (got: string): unknown => {
    const errors = [{ field: 'box.mounts.0.path', expected: 'a folder that is not part of the system', got }]
    const refused = asMountRefusal(new Fault('invalid_request', { errors }))
    return refused instanceof Fault ? refused.error : refused
  }
  assert.equal(
    told('/'),
    '--mount / is refused: it would show the box your whole system. Nothing started. Mount one folder, with --mount or in [box] mounts of your config.toml.',
  )
  assert.match(String(told('/etc')), /^--mount \/etc is refused: it must be a folder that is not part of the system\./)
})
