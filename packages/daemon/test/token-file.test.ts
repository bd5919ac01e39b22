/** The token file is read again when it changes, and a damaged one locks no one out. */
import assert from 'node:assert/strict'
import { chmodSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { tempFolder } from '../../../test/kit/folder.ts'
import { Secrets } from '../../engine/src/secrets.ts'
import { TokenFile } from '../src/token-file.ts'

const FIRST = 'first-token-0123456789'
const SECOND = 'second-token-0123456789'

test('a token is added or withdrawn by an edit of the file, and its value is a secret from then on', (t) => {
  const { file, tokens, secrets } = opened(t)
  assert.deepEqual(names(tokens), [FIRST])
  writeFileSync(file, `${FIRST}\n${SECOND} scope=read\n`)
  assert.deepEqual(names(tokens), [FIRST, SECOND])
  assert.equal(tokens.grants[1]?.isReadOnly, true)
  assert.equal(secrets.scrub(`it was ${SECOND}.`), 'it was [redacted].')
  writeFileSync(file, `${SECOND}\n`)
  assert.deepEqual(names(tokens), [SECOND])
})

test('a file that is missing, empty or open to others leaves the last tokens valid, and is reported once', (t) => {
  const { file, tokens, warnings } = opened(t)
  rmSync(file)
  assert.deepEqual(names(tokens), [FIRST])
  writeFileSync(file, '', { mode: 0o600 })
  assert.deepEqual([names(tokens), names(tokens)], [[FIRST], [FIRST]])
  assert.equal(warnings.length, 1)
  writeFileSync(file, `${SECOND}\n`)
  chmodSync(file, 0o644)
  assert.deepEqual(names(tokens), [FIRST])
  assert.equal(warnings.length, 2)
  chmodSync(file, 0o600)
  assert.deepEqual(names(tokens), [SECOND])
})

test('a token that is limited to a tenant is refused, because it would open everything; a comment is no limit', (t) => {
  const { file, tokens, warnings } = opened(t)
  writeFileSync(file, `${SECOND} team-b\n`)
  assert.deepEqual(names(tokens), [FIRST])
  assert.match(JSON.stringify(warnings, errors), /limits a token to team-b, and a daemon has no tenants/)
  assert.throws(() => new TokenFile(file, { secrets: new Secrets(), log: { warn: () => undefined } }), /no tenants/)
  writeFileSync(file, `${FIRST} # mine: everything\n${SECOND} scope=read # of the dashboard\n  # nobody's\n`)
  assert.deepEqual(tokens.grants, [
    { token: FIRST, prefixes: null, isReadOnly: false },
    { token: SECOND, prefixes: null, isReadOnly: true },
  ])
})

const errors = (_: string, value: unknown): unknown => (value instanceof Error ? value.message : value)

function opened(t: Parameters<typeof tempFolder>[0]) {
  const file = join(tempFolder(t), 'daemon.token')
  writeFileSync(file, `${FIRST}\n`, { mode: 0o600 })
  const warnings: unknown[] = []
  const secrets = new Secrets()
  const tokens = new TokenFile(file, { secrets, log: { warn: (...words: unknown[]) => void warnings.push(words) } })
  return { file, tokens, secrets, warnings }
}

const names = ({ grants }: TokenFile): readonly string[] => grants.map(({ token }) => token)
