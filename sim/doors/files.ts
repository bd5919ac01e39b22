/** Files whose answers come in a fixed order: the work is done at once, and its promise is settled already. */
import * as fs from 'node:fs'

const at =
  <A extends readonly unknown[], R>(work: (...args: A) => R) =>
  async (...args: A): Promise<R> =>
    work(...args)

export const readFile = at(fs.readFileSync)
export const writeFile = at(fs.writeFileSync)
export const mkdir = at(fs.mkdirSync)
export const rm = at(fs.rmSync)
export const rename = at(fs.renameSync)
export const stat = at(fs.statSync)
export const lstat = at(fs.lstatSync)
export const readdir = at(fs.readdirSync)
export const realpath = at(fs.realpathSync)
export const chmod = at(fs.chmodSync)
export const access = at(fs.accessSync)
export const unlink = at(fs.unlinkSync)
export const appendFile = at(fs.appendFileSync)
export const { constants } = fs

/** The disk has room, unless a universe says otherwise. */
export const statfs = async (): Promise<{ bavail: number; bsize: number; blocks: number; bfree: number }> => ({
  bavail: 1e9,
  bsize: 4096,
  blocks: 2e9,
  bfree: 1e9,
})

export const open = async (): Promise<never> => Promise.reject(new Error('real I/O in the universe: fs/promises open'))
