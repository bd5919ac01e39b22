/** Commands that print a document: as plain text for humans, in the result line for programs. */
import { LIMIT } from '../../test/kit/wait.ts'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Place } from '../breakfall.ts'

test('every printed document is also available in a result line', LIMIT, async () => {
  await using place = new Place()
  for (const args of [
    ['config', 'example'],
    ['service', 'print', '--state-dir', '/var/lib/break fall', '--port', '4711'],
    ['completion', 'fish'],
  ]) {
    const plain = await place.run(args)
    const { code, json } = await place.run([...args, '--json'])
    assert.equal(code, 0, args.join(' '))
    assert.deepEqual(json, [{ event: 'result', outcome: 'finished', text: `${plain.lines.join('\n')}\n` }])
  }
  const unit = (await place.run(['service', 'print', '--state-dir', '/var/lib/break fall', '--port', '4711'])).lines
  assert.ok(
    unit.some((line) => line.endsWith('up --json --port 4711 --state-dir "/var/lib/break fall"')),
    unit.join('\n'),
  )
  assert.deepEqual(systemdFinds(place.home, unit), [])
  const faults = await place.run(['chaos', '--list', '--json'])
  assert.deepEqual(faults.json.at(-1), { event: 'result', outcome: 'finished', count: faults.json.length - 1 })
  assert.ok(faults.json.slice(0, -1).every((line) => String(line['does']).length > 0))
})

/** What systemd finds wrong with a unit. Nothing if there is no systemd. */
function systemdFinds(folder: string, unit: readonly string[]): readonly string[] {
  const file = join(folder, 'breakfall.service')
  writeFileSync(file, `${unit.join('\n')}\n`)
  const env = { PATH: process.env['PATH'] ?? '', HOME: folder, XDG_RUNTIME_DIR: folder }
  const { stderr } = spawnSync('systemd-analyze', ['verify', '--user', file], { env, encoding: 'utf8' })
  return (stderr ?? '').split('\n').filter((line) => line.includes('breakfall.service')) // it also checks units of the machine
}
