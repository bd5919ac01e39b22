/** Files that are replaced all at once. */
import assert from 'node:assert/strict'
import { lstatSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { replaceFile } from '../src/platform.ts'
import { tempFolder } from '../../../test/kit/folder.ts'

for (const how of [{}, { isDurable: true }, { isShared: true }])
  test(`a replaced file has the new content and only its owner reads it; a failure leaves what was there, and nothing beside it (${JSON.stringify(how)})`, (t) => {
    const folder = tempFolder(t)
    const file = join(folder, 'state.json')
    writeFileSync(file, 'old', { mode: 0o644 })
    replaceFile(file, 'new', how)
    assert.deepEqual([readFileSync(file, 'utf8'), statSync(file).mode & 0o777], ['new', 0o600])
    mkdirSync(join(folder, 'taken', 'full'), { recursive: true })
    assert.throws(() => replaceFile(join(folder, 'taken'), 'lost', how)) // a folder cannot be replaced
    assert.throws(() => replaceFile(join(file, 'below'), 'lost', how), { code: 'ENOTDIR' })
    assert.deepEqual(readdirSync(folder).toSorted(), ['state.json', 'taken'])
  })

test('a link that waits under the temporary name leads nothing elsewhere', (t) => {
  const folder = tempFolder(t)
  const [file, other] = [join(folder, 'state.json'), join(folder, 'other')]
  writeFileSync(other, 'mine')
  symlinkSync(other, `${file}.new`)
  replaceFile(file, 'new')
  assert.deepEqual([readFileSync(file, 'utf8'), readFileSync(other, 'utf8')], ['new', 'mine'])
  assert.ok(lstatSync(file).isFile())
})
