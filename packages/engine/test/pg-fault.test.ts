import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EXIT_CODES, exitCodeOf } from '@breakfall/faults'
import { openingFault, pgFault, troubleOf } from '../src/store/postgres/pg-fault.ts'

const URL_GIVEN = 'postgres://me:secret@db:5433/nodb'
const failed = (code: string): Error => Object.assign(new Error('x'), { code })

test('a database that does not exist is a wrong setting, and the message has the command that creates it', () => {
  const fault = openingFault(failed('3D000'), URL_GIVEN, 'Nothing was migrated.')
  assert.equal(exitCodeOf(fault.report), EXIT_CODES.usage)
  assert.equal(
    fault.error,
    'PostgreSQL has no database nodb. Nothing was migrated. Create it: createdb -h db -p 5433 -U me nodb',
  )
})

test('a user that is not let in is a wrong setting', () => {
  const fault = openingFault(failed('28P01'), URL_GIVEN)
  assert.equal(exitCodeOf(fault.report), EXIT_CODES.usage)
  assert.match(fault.error, /does not let the user me in\. Nothing was started/)
})

test('a password that is missing is a wrong setting', () => {
  const said = new Error('SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string')
  const fault = openingFault(said, URL_GIVEN)
  assert.equal(exitCodeOf(fault.report), EXIT_CODES.usage)
  assert.match(fault.error, /asks for a password\. Nothing was started\. .*PGPASSWORD/)
})

test('a command whose database is away says that it did nothing, and a daemon that it did not start', () => {
  const away = failed('ECONNREFUSED')
  const command = openingFault(away, URL_GIVEN, 'Nothing was migrated.')
  assert.equal(command.category, 'journal_unreachable')
  assert.match(command.error, /does not answer\. Nothing was migrated\. Check .* run the command again/)
  assert.match(openingFault(away, URL_GIVEN).error, /does not answer\. Nothing was started\. Check/)
  assert.match(pgFault(away).error, /work continues/, 'a daemon that has run')
})

test('a mistake in our own code is a fault at once, and what a socket reports is not', () => {
  const mistake = new TypeError("Cannot read properties of undefined (reading 'seq')")
  assert.deepEqual([troubleOf(mistake), pgFault(mistake).category], ['statement', 'other'])
  for (const error of [new Error('Connection terminated unexpectedly'), failed('EPIPE'), new AggregateError([])])
    assert.deepEqual([troubleOf(error), pgFault(error).category], ['connection', 'journal_unreachable'])
})
