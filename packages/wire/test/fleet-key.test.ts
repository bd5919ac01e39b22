/** The key of a fleet: tokens of runners, and codes that work for a while. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { FleetKey, readFleetKey } from '@breakfall/wire/node'

const key = new FleetKey('a key that only the daemons have')

test("a runner's token is the HMAC-SHA256 of its id, in hexadecimal", () => {
  const expected = createHmac('sha256', 'a key that only the daemons have').update('runner:r1').digest('hex')
  assert.equal(key.tokenOf('r1'), expected)
  assert.notEqual(key.tokenOf('r2'), expected)
  assert.notEqual(new FleetKey('another').mark, key.mark)
})

test('a code is valid until it expires, for its own fleet only, and unchanged only', () => {
  const code = key.enrolment(1_000, 'nonce')
  assert.equal(key.nonceOf(code, 999), 'nonce')
  assert.equal(key.nonceOf(code, 1_000), undefined)
  assert.equal(new FleetKey('another').nonceOf(code, 0), undefined)
  assert.equal(key.nonceOf(code.replace('nonce', 'other'), 0), undefined)
  assert.equal(key.nonceOf(code.replace('.rs.', '.zz.'), 0), undefined, 'a later expiry')
  for (const wrong of ['', 'enroll.', `${code}.x`, key.tokenOf('r1')]) assert.equal(key.nonceOf(wrong, 0), undefined)
  assert.notEqual(key.enrolment(1_000), key.enrolment(1_000))
})

test('a key file is private and long enough; only a daemon makes one', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'fleet key '))
  t.after(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'key')
  assert.throws(() => readFleetKey(file), isFault)
  assert.ok(!existsSync(file))
  const made = readFleetKey(file, { isMade: true })
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.equal(readFleetKey(file, { isMade: true }).mark, made.mark)
  assert.ok(readFileSync(file, 'utf8').length > 32)
  chmodSync(file, 0o644)
  assert.throws(() => readFleetKey(file), /chmod 600/)
  writeFileSync(file, 'short')
  chmodSync(file, 0o600)
  assert.throws(() => readFleetKey(file), /fewer than/)
})
