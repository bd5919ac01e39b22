import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { afterAwake } from '../src/clock.ts'
import { manualClock } from './child-fixture.ts'

describe('a time limit on the child', () => {
  it('expires after this process was awake for all of it', () => {
    const clock = manualClock()
    let calls = 0
    afterAwake(clock, 800, () => {
      calls += 1
    })
    clock.advance(799)
    assert.equal(calls, 0)
    clock.advance(1)
    assert.equal(calls, 1)
    clock.advance(10_000)
    assert.equal(calls, 1)
  })

  it('loses only one slice of its time while this process is suspended', () => {
    const clock = manualClock()
    let isOver = false
    afterAwake(clock, 800, () => {
      isOver = true
    })
    clock.jump(1_000_000)
    assert.ok(!isOver)
    clock.advance(699)
    assert.ok(!isOver)
    clock.advance(1)
    assert.ok(isOver)
  })

  it('can be cancelled during any slice', () => {
    const clock = manualClock()
    const cancel = afterAwake(clock, 800, () => assert.fail('it was left'))
    clock.advance(500)
    cancel()
    clock.advance(10_000)
  })
})
