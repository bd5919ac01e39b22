/** `breakfall open`, and a daemon that keeps its address: what an open page depends on. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LIMIT } from '../../test/kit/wait.ts'
import { Place } from '../breakfall.ts'

test('a killed daemon comes back at the same address, and the token of a page still works there', LIMIT, async () => {
  await using place = new Place()
  const first = place.start(['up', '--json'])
  const { url, console: page } = await first.listening()
  assert.equal(page, `${String(url)}/`)
  const printed = await place.run(['open', '--print', '--json'])
  assert.equal(printed.code, 0, printed.stderr)
  const [{ url: opened = '' } = {}] = printed.json.filter(({ event }) => event === 'console')
  const [, ticket = ''] = /^http:\/\/127\.0\.0\.1:\d+\/#ticket=([\w-]+)$/.exec(String(opened)) ?? []
  const exchanged = await fetch(`${String(url)}/v1/console/tokens`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', origin: String(url) },
    body: JSON.stringify({ ticket }),
  })
  assert.equal(exchanged.status, 201)
  const { token } = (await exchanged.json()) as { token: string }
  await first.kill('SIGKILL')
  const second = place.start(['up', '--json'])
  assert.equal((await second.listening())['url'], url)
  const listed = await fetch(`${String(url)}/v1/sessions`, { headers: { authorization: `Bearer ${token}` } })
  assert.equal(listed.status, 200)
  await second.stop()
  const gone = await place.run(['open', '--json'])
  assert.equal(gone.code, 125, gone.stderr)
})
