/** The time that the daemons of a fleet agree on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FleetClock } from '../src/store/postgres/clock.ts'
import { Punctuality } from '../src/store/postgres/lease-protocol.ts'

const DATABASE = Date.UTC(2026, 0, 1)
const TEN_MINUTES = 600_000

function clockWith(wall: number): { clock: FleetClock; at: { monotonic: number; wall: number } } {
  const at = { monotonic: 1_000, wall }
  return { clock: new FleetClock(() => at), at }
}

test('a machine whose clock is ten minutes fast has the time of the database, and its clock runs on', () => {
  const { clock, at } = clockWith(DATABASE + TEN_MINUTES)
  clock.learn({ now: DATABASE, roundTripMs: 2_000, receivedAt: at.monotonic }) // however slow the first answer was
  assert.equal(clock.now(), DATABASE + 1_000)
  at.monotonic += 5_000
  at.wall += 5_000 + TEN_MINUTES // somebody sets it
  assert.equal(clock.now(), DATABASE + 6_000)
})

test('a clock that is ahead of the database slows down, and neither goes back nor stands still', () => {
  const { clock, at } = clockWith(DATABASE)
  clock.learn({ now: DATABASE + TEN_MINUTES, roundTripMs: 0, receivedAt: at.monotonic })
  const ahead = clock.now()
  clock.learn({ now: DATABASE, roundTripMs: 0, receivedAt: at.monotonic })
  assert.equal(clock.now(), ahead)
  at.monotonic += 1_000
  assert.equal(clock.now(), ahead + 100)
  at.monotonic += TEN_MINUTES * 2
  assert.ok(clock.now() > ahead + TEN_MINUTES - 2_000)
})

test('a small difference is corrected little by little, and a slow answer not at all', () => {
  const { clock, at } = clockWith(0)
  clock.learn({ now: DATABASE, roundTripMs: 0, receivedAt: at.monotonic })
  clock.learn({ now: DATABASE + 100, roundTripMs: 0, receivedAt: at.monotonic })
  assert.equal(clock.now(), DATABASE + 5)
  clock.learn({ now: DATABASE + TEN_MINUTES, roundTripMs: 1_000, receivedAt: at.monotonic })
  assert.equal(clock.now(), DATABASE + 5)
})

test('a daemon that an outage kept from renewing declares no other daemon dead for a lease, even if its own lease did not run out', () => {
  const punctuality = new Punctuality(9_000, 0)
  const renewedAt = (now: number, gapMs: number): boolean => {
    punctuality.renewed(gapMs, now)
    return punctuality.mayReap(now)
  }
  assert.equal(renewedAt(3_000, 3_000), false, 'it has just started')
  assert.equal(renewedAt(9_000, 3_100), true)
  assert.equal(renewedAt(15_500, 6_500), false, 'another daemon, which renewed just before the outage began, is late')
  assert.equal(renewedAt(18_500, 3_000), false)
  assert.equal(renewedAt(24_500, 5_900), true, 'a slow answer does no harm')
})
