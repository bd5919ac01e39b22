import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { assertNoGap } from '../support/api.ts'
import { rig } from '../support/setup.ts'

const DOCS = fileURLToPath(new URL('../../../../docs/concepts/turns-and-journal.md', import.meta.url))

/** The commands from the docs. */
function documented(): string {
  const block = /<!-- backup -->\n```sh\n([\s\S]*?)```/.exec(readFileSync(DOCS, 'utf8'))?.[1]
  assert.ok(block !== undefined, 'the docs say how to back up')
  return block
}

test('a backup made as documented, while a turn streams, opens intact and continues from that moment', async (t) => {
  const text = 'word '.repeat(200)
  const first = await rig(t, () => ({ text, pieceChars: 1, pauseMs: 30 })) // half a minute, unless it is cancelled
  const { id } = await first.api.session()
  const turnId = await first.api.prompt(id, 'talk')
  await first.api.events(id, (event) => event.type === 'text-delta')
  const copy = join(tempFolder(t), 'copy')
  const PATH = `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`
  await promisify(execFile)('sh', ['-ec', documented()], { env: { PATH, STATE: first.stateDir, COPY: copy } })
  for (const file of ['journal.db', 'anchors'])
    assert.equal(statSync(join(copy, 'journal', file)).mode & 0o777, 0o600, `${file} is private`)
  await first.api.call('POST', `/v1/turns/${turnId}/cancel`, {})
  const original = await first.api.ended(id, turnId)

  const second = await rig(t, () => ({ text }), { stateDir: copy })
  assert.equal(second.daemon.recovered, 1)
  const events = await second.api.ended(id, turnId)
  assertNoGap(events)
  const takenOver = events.findIndex((event) => event.type === 'taken-over')
  assert.ok(takenOver >= 3, 'what was there came along')
  assert.deepEqual(events.slice(0, takenOver), original.slice(0, takenOver))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end' && end.text === text)
})
