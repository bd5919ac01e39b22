/** The keyboard: one table for what keys do and for the help that lists them. Single letters can be switched off. */
import { signal } from '@preact/signals'

export const KEYS = [
  { keys: '?', does: 'this help' },
  { keys: 'g f', does: 'fleet' },
  { keys: 'g i', does: 'faults' },
  { keys: 'g s', does: 'system' },
  { keys: 'g d', does: 'demo' },
  { keys: '/', does: 'search' },
  { keys: 'j k', does: 'next, previous row' },
  { keys: 'Enter', does: 'open' },
  { keys: 'Esc', does: 'back, close' },
  { keys: 'n p', does: 'next, previous fault' },
  { keys: 'e w', does: 'unfold, fold all steps' },
  { keys: '← →', does: 'in the thread: previous, next step' },
  { keys: '↑ ↓', does: 'in the thread: previous, next attempt' },
  { keys: '+ - 0', does: 'zoom the thread' },
  { keys: 'End', does: 'follow the end' },
  { keys: 'l', does: 'pause or continue live updates' },
  { keys: 'r', does: 'retry or resume now' },
  { keys: 'x', does: 'cancel (asks first)' },
  { keys: 'c', does: 'write a prompt' },
  { keys: 'y', does: 'copy a link to this' },
  { keys: 't', does: 'times in UTC or here' },
  { keys: '[ ]', does: 'previous, next pane' },
] as const

const STORED = 'breakfall.keys'

/** WCAG 2.1.4: single-letter keys are optional. */
export const hasLetterKeys = signal(readSetting())
export const isHelpOpen = signal(false)

export function setLetterKeys(on: boolean): void {
  hasLetterKeys.value = on
  try {
    localStorage.setItem(STORED, on ? 'on' : 'off')
  } catch {
    // storage is switched off: the setting lasts as long as the page
  }
}

export type KeyActions = {
  readonly go: (screen: 'fleet' | 'faults' | 'system' | 'demo') => void
  readonly back: () => void
  readonly emit: (name: string, detail?: unknown) => void
  readonly copyLink: () => void
  readonly toggleTimes: () => void
  readonly togglePause: () => void
}

let wasG = false

export function takeKey(event: KeyboardEvent, actions: KeyActions): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return
  const { target } = event
  if (target instanceof HTMLElement && target.matches('input, textarea, select, [contenteditable]')) {
    if (event.key === 'Escape') target.blur()
    return
  }
  if (document.querySelector('dialog[open]') !== null) return
  const isAlways = event.key === 'Escape' || event.key === 'End'
  if (!isAlways && !hasLetterKeys.peek()) return
  const isSecond = wasG
  wasG = false
  if (isSecond && second(event.key, actions)) return event.preventDefault()
  if (event.key === 'g') {
    wasG = true
    return
  }
  if (first(event.key, actions)) event.preventDefault()
}

// ---- details ----

function readSetting(): boolean {
  try {
    return localStorage.getItem(STORED) !== 'off'
  } catch {
    return true // as above
  }
}

function second(key: string, { go }: KeyActions): boolean {
  const screen = ({ f: 'fleet', i: 'faults', s: 'system', d: 'demo' } as const)[key]
  if (screen === undefined) return false
  go(screen)
  return true
}

function first(key: string, actions: KeyActions): boolean {
  const { emit } = actions
  switch (key) {
    case '?':
      isHelpOpen.value = true
      return true
    case 'Escape':
      actions.back()
      return true
    case '/':
      return focusOn('#search')
    case 'c':
      return focusOn('#composer')
    case 'j':
      return moveRow(1)
    case 'k':
      return moveRow(-1)
    case 'n':
      emit('turn', 'next-fault')
      return true
    case 'p':
      emit('turn', 'previous-fault')
      return true
    case 'e':
      emit('turn', 'unfold-all')
      return true
    case 'w':
      emit('turn', 'fold-all')
      return true
    case '+':
    case '=':
      emit('zoom', 1)
      return true
    case '-':
      emit('zoom', -1)
      return true
    case '0':
      emit('zoom', 0)
      return true
    case 'End':
      emit('follow')
      return true
    case 'l':
      actions.togglePause()
      return true
    case 'r':
      return press('.state-bar [data-action="resume"], .session:focus-within [data-action="resume"]')
    case 'x':
      return press('.state-bar [data-action="cancel"], .session:focus-within [data-action="cancel"]')
    case 'y':
      actions.copyLink()
      return true
    case 't':
      actions.toggleTimes()
      return true
    case '[':
    case ']':
      return movePane(key === ']' ? 1 : -1)
    default:
      return false
  }
}

function focusOn(selector: string): boolean {
  const element = document.querySelector<HTMLElement>(selector)
  element?.focus()
  return element !== null
}

function press(selector: string): boolean {
  const button = document.querySelector<HTMLElement>(selector)
  button?.click()
  return button !== null
}

function moveRow(by: number): boolean {
  const rows = [
    ...document.querySelectorAll<HTMLElement>('.session .title, .group h2 a, .step .button-row, .occurrence a'),
  ]
  if (rows.length === 0) return false
  const at = rows.findIndex((row) => row === document.activeElement)
  const next = rows[at === -1 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, at + by))]
  next?.focus()
  return true
}

function movePane(by: number): boolean {
  const panes = ['.talk', '.lanes-box .seg[tabindex="0"]', '#inspector', '#composer'].flatMap((selector) => {
    const pane = document.querySelector<HTMLElement>(selector)
    return pane === null ? [] : [pane]
  })
  if (panes.length === 0) return false
  const at = panes.findIndex((pane) => pane.contains(document.activeElement))
  panes[(at + by + panes.length) % panes.length]?.focus()
  return true
}
