/** Commands that print a document: as plain text for humans, in the result line for programs. */
import { LIMIT } from '../../test/kit/wait.ts'
import assert from 'node:assert/strict'
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
  const faults = await place.run(['chaos', '--list', '--json'])
  assert.deepEqual(faults.json.at(-1), { event: 'result', outcome: 'finished', count: faults.json.length - 1 })
  assert.ok(faults.json.slice(0, -1).every((line) => String(line['does']).length > 0))
})
