import assert from 'node:assert/strict'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { Reservations } from '../src/exec/reservations.ts'

const idOf = (execId: string) => ({ execId, machineBootId: 'boot', hash: `hash-of-${execId}` })

test('an id is found once its record was removed, in this process and in the next, however many there are', async (t) => {
  const file = join(tempFolder(t), 'reservations')
  const first = new Reservations(file)
  const ids = Array.from({ length: 1_000 }, (_, n) => `e${n}`)
  await Promise.all(ids.map((execId) => first.add(idOf(execId))))
  assert.equal(first.find('e1'), undefined, 'it has its record')
  first.forget(ids.slice(0, 900))
  first.forget(['e1']) // its record was made again, and removed again
  first.close()
  for (const reservations of [first, new Reservations(file)]) {
    assert.equal(reservations.find('e1')?.hash, 'hash-of-e1')
    assert.equal(reservations.find('e899')?.hash, 'hash-of-e899')
    assert.deepEqual([reservations.find('e900'), reservations.find('e1000')], [undefined, undefined])
    assert.equal(reservations.read().length, 1_000)
    reservations.close()
  }
})

test('ids that earlier versions reserved may have been removed without a note', (t) => {
  const file = join(tempFolder(t), 'reservations')
  appendFileSync(file, 'old boot hash\nnew boot hash noted\n')
  const reservations = new Reservations(file)
  assert.deepEqual([reservations.find('old')?.hash, reservations.find('new')], ['hash', undefined])
})
