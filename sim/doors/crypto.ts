/** Ids and tokens from the dice of the process that asks; hashes are Node's own. */
import * as real from 'node:crypto'
import { hasWorld, here } from '../host/time.ts'

export const {
  createHash,
  createHmac,
  hash,
  timingSafeEqual,
  createPublicKey,
  createPrivateKey,
  sign,
  verify,
  constants,
} = real

const dice = (): number => (hasWorld() ? here().dice.next() : Math.random())

export function randomBytes(length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => Math.floor(dice() * 256)))
}

export function randomUUID(): `${string}-${string}-${string}-${string}-${string}` {
  const hex = randomBytes(16).toString('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20)}`
}

export const randomInt = (min: number, max?: number): number =>
  max === undefined ? Math.floor(dice() * min) : min + Math.floor(dice() * (max - min))
