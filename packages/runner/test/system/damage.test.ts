/** State files damaged by a power cut or the disk: a broken exec affects neither its box nor other execs, and nothing runs twice. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { inProcess, withoutBwrap } from '../kit.ts'

type Damage = (file: string) => void
const to =
  (text: string): Damage =>
  (file) =>
    writeFileSync(file, text)
const gone: Damage = (file) => rmSync(file)
const folder: Damage = (file) => {
  rmSync(file)
  mkdirSync(file)
}
const half: Damage = (file) => {
  const text = readFileSync(file, 'utf8').trim()
  writeFileSync(file, text.slice(0, text.length / 2).padEnd(8192))
}

const WAYS: Readonly<Record<string, Damage>> = {
  empty: to(''),
  zeros: to('\0'.repeat(4096)),
  garbage: to('garbage'),
  object: to('{}'),
  null: to('null'),
  half,
  middle: (file) => {
    const bytes = readFileSync(file)
    writeFileSync(file, Buffer.concat([bytes.subarray(0, 16), Buffer.alloc(16), bytes.subarray(32)])) // one lost block
  },
  noTime: (file) => {
    const bytes = readFileSync(file)
    bytes.fill(0xff, 8, 16) // in an index: the time of its first event
    writeFileSync(file, bytes)
  },
  gone,
  folder,
}

describe('damaged files', { skip: withoutBwrap }, async () => {
  test('of a finished exec: what can be read stays, the damage is reported, and the id is never used again', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const body = { shell: 'echo run >>runs; echo one; echo two >&2; exit 3' }
    const cases = ['request.json', 'exit', 'index'].flatMap((file) =>
      Object.keys(WAYS).map((way) => ({ execId: `${file}.${way}`, file, damage: WAYS[way] as Damage })),
    )
    const first = await inProcess(t, { stateDir })
    await first.box({ id: 'b1' })
    for (const { execId } of cases) await first.run('b1', { execId, ...body })
    await first.run('b1', { execId: 'whole', ...body })
    await first.close()
    const execs = join(stateDir, 'boxes/default/b1/execs')
    for (const { execId, file, damage } of cases) damage(join(execs, execId, file))
    const told: string[] = []
    const second = await inProcess(t, { stateDir, onProblem: (line) => void told.push(line) })
    assert.equal((await second.call('GET', 'boxes/b1')).json['state'], 'running')
    assert.equal((await second.client.listExecs('b1')).length, cases.length + 1)
    for (const { execId, file } of cases) {
      const { exit } = await second.client.getExec('b1', execId)
      const known = file === 'exit' ? ['runner_lost', null] : ['exited', 3]
      assert.deepEqual([exit?.cause, exit?.code, exit?.started], [...known, true], execId)
      const events = await second.events('b1', execId)
      assert.deepEqual(
        events.map(({ seq }) => seq),
        [1, 2, 3, 4],
        execId,
      )
      const [start, ...rest] = events.map(({ type }) => type)
      assert.deepEqual([start, ...rest.slice(0, 2).toSorted(), rest[2]], ['start', 'stderr', 'stdout', 'exit'], execId)
      assert.equal((await second.client.execOutput('b1', execId, 'stdout')).toString(), 'one\n')
      const again = await second.call('POST', 'boxes/b1/exec', { execId, ...body })
      assert.equal(again.status, 200, `${execId}: ${again.text}`)
      const other = await second.call('POST', 'boxes/b1/exec', { execId, shell: 'echo other' })
      assert.deepEqual([other.status, other.json.category], [409, 'exec_conflict'], execId)
    }
    assert.equal((await second.run('b1', 'cat runs | wc -l')).stdout.trim(), String(cases.length + 1))
    assert.match(told.join('\n'), /exec exit\.half of box b1 was damaged/)
  })

  test('of output: lost bytes are a gap with its range, never a silent end, and no reader spins', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await inProcess(t, { stateDir })
    await first.box({ id: 'b1' })
    const ids = ['spool', 'both'] as const
    for (const execId of ids) await first.run('b1', { execId, shell: 'echo 123456789' })
    await first.close()
    for (const execId of ids) {
      const at = join(stateDir, 'boxes/default/b1/execs', execId)
      truncateSync(join(at, 'stdout'), 4)
      if (execId === 'both') truncateSync(join(at, 'index'), 0)
    }
    const second = await inProcess(t, { stateDir })
    assert.deepEqual(await gapsOf(second.events('b1', 'spool')), ['1 start', '2 gap 0-10', '3 exit'])
    assert.deepEqual(await gapsOf(second.events('b1', 'both')), ['1 start', '2 stdout', '3 gap 4-10', '4 exit'])
    for (const execId of ids)
      assert.equal((await second.call('GET', `boxes/b1/execs/${execId}/output/stdout`)).status, 416)
    truncateSync(join(stateDir, 'boxes/default/b1/execs/both/index'), 0) // while the runner is not aware of it
    await assert.rejects(second.events('b1', 'both'))
    assert.equal((await second.run('b1', 'echo on')).stdout, 'on\n')
  })

  test('of an exec that still runs: it is adopted, and its end is known', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await inProcess(t, { stateDir })
    await first.box({ id: 'b1' })
    const request = { execId: 'live', shell: 'echo before; while ! [ -e go ]; do sleep 0.02; done; echo after; exit 5' }
    await first.client.startExec('b1', request)
    for await (const event of first.client.execEvents('b1', 'live')) if (event.type === 'stdout') break
    await first.close()
    const at = join(stateDir, 'boxes/default/b1/execs/live')
    writeFileSync(join(at, 'request.json'), '')
    const second = await inProcess(t, { stateDir })
    await second.client.writeFile('b1', 'go', Buffer.from(''))
    const { exit } = await second.client.waitExec('b1', 'live')
    assert.deepEqual([exit?.cause, exit?.code], ['exited', 5])
    assert.equal((await second.client.execOutput('b1', 'live', 'stdout')).toString(), 'before\nafter\n')
    assert.equal((await second.call('POST', 'boxes/b1/exec', request)).status, 200)
  })

  test('of a box: it is failed, not gone, and keeps its files; stray files around it do no harm', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await inProcess(t, { stateDir })
    const ids = Object.keys(WAYS)
    for (const id of [...ids, 'good']) {
      await first.box({ id })
      await first.client.writeFile(id, 'work', Buffer.from('of hours'))
    }
    await first.close()
    const boxes = join(stateDir, 'boxes/default')
    for (const id of ids) WAYS[id]?.(join(boxes, id, 'box.json'))
    for (const stray of ['boxes/stray', 'boxes/default/stray', 'boxes/default/good/execs/stray', 'trash/stray'])
      writeFileSync(join(stateDir, stray), 'x')
    for (const stray of ['fifos/stray', 'runner.json']) mkdirSync(join(stateDir, stray))
    writeFileSync(join(stateDir, 'fifos/zzz'), 'x')
    writeFileSync(join(boxes, 'good/reservations'), '\xff\0 garbage\n\n../../../evil other-boot hash\n')
    const second = await inProcess(t, { stateDir })
    for (const id of ids) {
      assert.equal((await second.call('GET', `boxes/${id}`)).json['state'], 'failed', id)
      assert.ok(existsSync(join(boxes, id, 'workspace/work')), id)
      assert.equal((await second.call('DELETE', `boxes/${id}`)).status, 204, id)
    }
    assert.equal((await second.run('good', 'cat work')).stdout, 'of hours')
    assert.ok(!existsSync(join(stateDir, 'evil')))
  })

  test('of a workspace that a command at level process removed: 404 and 422, never a 5xx, and the box can be removed', async (t) => {
    const runner = await inProcess(t, { allowIsolation: ['process'], isolation: 'process' })
    for (const [id, way] of [
      ['gone', 'rmdir "$w"'],
      ['link', 'rmdir "$w"; ln -s /etc "$w"'],
    ] as const) {
      await runner.box({ id })
      await runner.run(id, `w=$PWD; cd /; ${way}`)
      for (const [method, path, body] of [
        ['GET', 'files?glob=*'],
        ['GET', 'files/passwd'],
        ['PUT', 'files/x', 'x'],
        ['DELETE', 'files/x'],
      ] as const) {
        const answer = await runner.call(method, `boxes/${id}/${path}`, body)
        assert.deepEqual([answer.status, answer.json.category], [404, 'file_not_found'], `${method} ${path}`)
      }
      assert.equal((await runner.call('DELETE', `boxes/${id}`)).status, 204)
    }
  })

  test("of the runner's identity: it does not start under another id, and names the file", async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    await (await inProcess(t, { stateDir })).close()
    for (const way of ['empty', 'garbage', 'object', 'null', 'folder']) {
      WAYS[way]?.(join(stateDir, 'identity.json'))
      await assert.rejects(inProcess(t, { stateDir }), (error: Error & { category?: string }) => {
        assert.equal(error.category, 'journal_corrupt', way)
        assert.match(error.message, /identity\.json.*delete it/)
        return true
      })
    }
  })
})

async function gapsOf(events: ReturnType<Awaited<ReturnType<typeof inProcess>>['events']>): Promise<string[]> {
  return (await events).map((event) =>
    event.type === 'gap' ? `${event.seq} gap ${event.from}-${event.to}` : `${event.seq} ${event.type}`,
  )
}
