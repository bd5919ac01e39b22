import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { describeExit, diagnoseExit, readExit } from '../src/index.ts'

describe('an exit status', () => {
  it('of a shell shows the signal of its child, and keeps the raw code', () => {
    assert.deepEqual(readExit(139, null, '/bin/sh'), { code: null, signal: 'SIGSEGV', rawCode: 139, rawSignal: null })
    assert.deepEqual(readExit(137, null, 'npx'), { code: null, signal: 'SIGKILL', rawCode: 137, rawSignal: null })
  })

  it('of any other program is taken literally', () => {
    assert.deepEqual(readExit(139, null, 'llama-server'), { code: 139, signal: null, rawCode: 139, rawSignal: null })
    assert.equal(readExit(1, null, 'sh').code, 1)
    assert.equal(readExit(255, null, 'sh').signal, null)
  })

  it('from Windows is the same in every notation, and a rounded one is marked as approximate', () => {
    for (const code of [3_221_225_477, -1_073_741_819]) {
      assert.deepEqual(readExit(code, null).ntstatus, {
        hex: '0xC0000005',
        name: 'access violation',
        approximate: false,
      })
      assert.equal(diagnoseExit(readExit(code, null))?.id, 'win.access_violation')
    }
    // eslint-disable-next-line no-loss-of-precision -- the lost precision is the subject
    const rounded = readExit(18446744072635812000, null)
    assert.equal(rounded.ntstatus?.hex, '0xC0000409')
    assert.equal(rounded.ntstatus?.approximate, true)
    assert.equal(describeExit(rounded), 'exited with 0xC0000409 (stack buffer overrun or abort)')
  })

  it('reads as a clause', () => {
    assert.equal(describeExit(readExit(2, null)), 'exited with code 2')
    assert.equal(describeExit(readExit(null, 'SIGSEGV')), 'was ended by SIGSEGV (segmentation fault)')
  })

  it('13 of a program that is not Node means nothing special', () => {
    assert.equal(diagnoseExit(readExit(13, null), 'llama-server'), undefined)
  })
})
