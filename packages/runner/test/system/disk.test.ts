/** A full or damaged disk: typed faults, a runner that keeps running, and boxes that report their true state. */
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { inProcess, until, withoutBwrap, withoutRoot } from '../kit.ts'

describe('the disk', { skip: withoutRoot || withoutBwrap }, async () => {
  test('full in the middle of output: the exec ends with the reason and keeps what was written; then 507; with free space everything works again', async (t) => {
    const { folder, stateDir } = smallDisk(t)
    const runner = await inProcess(t, { stateDir, tokenFile: join(folder, 'token') })
    await runner.box({ id: 'b1' })
    const { exec, events } = await runner.run('b1', {
      execId: 'big',
      shell: 'head -c 50000000 /dev/zero; exec sleep 1d', // only the runner ends it
    })
    assert.equal(exec.exit?.cause, 'output_limit')
    assert.equal(exec.exit?.truncated, true)
    assert.ok(
      exec.exit?.diagnostics.some(({ id }) => id === 'output_not_kept'),
      JSON.stringify(exec.exit),
    )
    assert.ok(exec.stdoutBytes > 1_000_000)
    assert.equal(events.at(-1)?.type, 'exit')
    assert.equal((await runner.client.execOutput('b1', 'big', 'stdout')).length, exec.stdoutBytes)
    await runner.run('b1', 'true').catch(() => undefined)
    await fillUp(stateDir)
    const refused = await runner.call('POST', 'boxes/b1/exec', { execId: 'more', command: ['true'] })
    assert.deepEqual([refused.status, refused.json.category], [507, 'journal_full'], refused.text)
    const put = await runner.call('PUT', 'boxes/b1/files/f', 'x'.repeat(100_000))
    assert.deepEqual([put.status, put.json.category], [507, 'journal_full'], put.text)
    assert.equal((await runner.call('GET', '/v1/health')).status, 200)
    execFileSync('mount', ['-o', 'remount,size=16m', stateDir])
    assert.equal((await runner.run('b1', { execId: 'more', shell: 'echo again' })).stdout, 'again\n')
  })

  test('almost full: a command is refused, or is not started because the disk is full', async (t) => {
    const { folder, stateDir } = smallDisk(t)
    const runner = await inProcess(t, { stateDir, tokenFile: join(folder, 'token') })
    await runner.box({ id: 'b1' })
    const seen = new Set<string>()
    for (let pages = 0; !seen.has('exited undefined true'); pages += 1) {
      const { bavail, bsize } = statfsSync(stateDir)
      const filler = join(stateDir, 'filler')
      writeFileSync(filler, Buffer.alloc((bavail - pages) * bsize))
      const execId = `e${pages}`
      const { status, json } = await runner.call('POST', 'boxes/b1/exec', { execId, command: ['true'] })
      if (status === 201) {
        const { cause, reason, started } = (await runner.client.waitExec('b1', execId)).exit ?? {}
        seen.add(`${cause} ${reason} ${started}`)
      } else seen.add(`${status} ${json.category}`)
      rmSync(filler)
    }
    assert.deepEqual([...seen], ['507 journal_full', 'spawn_failed no_space false', 'exited undefined true'])
  })

  test('full at the start: the runner serves what it has, and removing a box frees space', async (t) => {
    const { folder, stateDir } = smallDisk(t)
    const tokenFile = join(folder, 'token')
    const first = await inProcess(t, { stateDir, tokenFile })
    await first.box({ id: 'b1' })
    await first.box({ id: 'big' })
    await first.run('big', { shell: 'head -c 50000000 /dev/zero' })
    await first.close()
    await fillUp(stateDir)
    const told: string[] = []
    const second = await inProcess(t, { stateDir, tokenFile, onProblem: (line) => void told.push(line) })
    assert.match(told.join('\n'), /ENOSPC/)
    const newOwner = { 'x-breakfall-epoch': '7' } // a new owner, whose epoch cannot be saved
    const started = await second.call('POST', 'boxes/big/exec', { execId: 'e1', command: ['true'] }, newOwner)
    assert.deepEqual([started.status, started.json.category], [507, 'journal_full'], started.text)
    assert.equal((await second.call('DELETE', 'boxes/big', undefined, newOwner)).status, 204)
    await until(
      async () => (await second.call('POST', 'boxes/b1/exec', { execId: 'e1', command: ['true'] })).status,
      (status) => status === 201,
    )
    assert.equal((await second.client.waitExec('b1', 'e1')).exit?.code, 0)
  })

  test('a box with a damaged record is failed and can be removed; other boxes are unaffected', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const first = await inProcess(t, { stateDir })
    await first.box({ id: 'good' })
    await first.box({ id: 'bad' })
    await first.close()
    writeFileSync(join(stateDir, 'boxes/default/bad/box.json'), '{"record":')
    const second = await inProcess(t, { stateDir })
    assert.equal((await second.run('good', 'echo fine')).stdout, 'fine\n')
    const refused = await second.call('POST', 'boxes/bad/exec', { command: ['true'] })
    assert.deepEqual(
      [refused.status, refused.json.category, refused.json['boxState']],
      [409, 'box_invalid_state', 'failed'],
    )
    assert.equal((await second.call('DELETE', 'boxes/bad')).status, 204)
    assert.equal((await second.call('GET', 'boxes/bad')).status, 404)
  })
})

/** A state folder on a 4 MiB disk. */
function smallDisk(t: TestContext): { folder: string; stateDir: string } {
  const folder = tempFolder(t)
  const stateDir = join(folder, 'state')
  mkdirSync(stateDir)
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', stateDir])
  atEnd(t, () => void execFileSync('umount', ['-l', stateDir]))
  return { folder, stateDir }
}

async function fillUp(folder: string): Promise<void> {
  try {
    writeFileSync(join(folder, 'filler'), Buffer.alloc(8 * 1024 * 1024))
  } catch (error) {
    assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC')
  }
}
