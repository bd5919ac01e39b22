import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Fault } from '@breakfall/faults'
import { EventStream } from '../src/event-stream.ts'
import { InFlight } from '../src/in-flight.ts'

describe('requests in flight', () => {
  it('fail once, even if a listener finishes the others', () => {
    const inFlight = new InFlight(
      () => undefined,
      () => 0,
    )
    const requests = [inFlight.open({ id: 'a' }), inFlight.open({ id: 'b' })]
    let told = 0
    for (const request of requests) {
      request.signal.addEventListener('abort', () => {
        told += 1
        for (const other of requests) other.done()
      })
    }
    const fail = (): void => inFlight.failAll(() => new Fault('process_failed'))
    fail()
    fail()
    assert.equal(told, 2)
    assert.equal(inFlight.size, 0)
  })

  it('that were sent have an unknown outcome, unless they are pure', () => {
    const inFlight = new InFlight(
      () => undefined,
      () => 0,
    )
    for (const [id, pure] of [
      ['a', false],
      ['b', true],
    ] as const)
      inFlight.open({ id, pure }).sent()
    inFlight.open({ id: 'c' })
    const seen: string[] = []
    inFlight.failAll(({ id, sideEffects }) => {
      seen.push(`${id} ${sideEffects}`)
      return new Fault('process_failed')
    })
    assert.deepEqual(seen, ['a unknown', 'b none', 'c none'])
  })

  it('count silence in ticks, so a jump of the clock counts as one tick', () => {
    const inFlight = new InFlight(
      () => undefined,
      () => 0,
    )
    const request = inFlight.open({ id: 'a' })
    assert.equal(inFlight.tick(3), undefined)
    assert.equal(inFlight.tick(3), undefined)
    request.progress()
    assert.equal(inFlight.tick(3), undefined)
    assert.equal(inFlight.tick(3), undefined)
    assert.equal(inFlight.tick(3), 'a')
  })

  it('are not counted as silent while the caller is not reading', () => {
    const requests = new InFlight(
      () => undefined,
      () => 0,
    )
    const request = requests.open({ id: 'slowly read' })
    request.hold()
    for (let tick = 0; tick < 20; tick += 1) assert.equal(requests.tick(2), undefined)
    request.progress()
    assert.equal(requests.tick(2), undefined)
    assert.equal(requests.tick(2), 'slowly read')
  })

  it('get a new id if theirs is taken', () => {
    const inFlight = new InFlight(
      () => undefined,
      () => 0,
    )
    assert.notEqual(inFlight.open({ id: 'a' }).id, inFlight.open({ id: 'a' }).id)
    assert.equal(inFlight.size, 2)
  })
})

describe('the event stream', () => {
  it('drops the oldest events for a slow reader, and says how many', async () => {
    const stream = new EventStream<{ type: 'n'; n: number }>()
    const reader = stream.read()
    for (let n = 0; n < 1_500; n += 1) stream.emit({ type: 'n', n })
    assert.deepEqual((await reader.next()).value, { type: 'dropped', count: 500 })
    assert.deepEqual((await reader.next()).value, { type: 'n', n: 500 })
    await reader.return?.()
    assert.equal(stream.size, 0)
  })

  it('ends with its signal, after the events that came before', async () => {
    const stream = new EventStream<{ type: 'n' }>()
    const over = new AbortController()
    const reader = stream.read(over.signal)
    stream.emit({ type: 'n' })
    over.abort()
    stream.emit({ type: 'n' })
    const seen: unknown[] = []
    for await (const event of reader) seen.push(event)
    assert.equal(seen.length, 1)
  })
})
