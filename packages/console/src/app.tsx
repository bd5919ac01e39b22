/** The frame around every screen, and which screen that is. */
import type { ComponentChildren, VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { hasLetterKeys, isHelpOpen, type KeyActions, KEYS, setLetterKeys, takeKey } from './ui/keys.ts'
import { login, link } from './link/connection.ts'
import { fleet, system } from './link/fleet.ts'
import { Announcer } from './ui/announcer.tsx'
import { Boundary, copyText } from './ui/boundary.tsx'
import { Logo } from './ui/labels.tsx'
import { isUtc } from './ui/times.tsx'
import { ConnectionBar } from './ui/connection-bar.tsx'
import { picked, searchText } from './turn/selection.ts'
import { fleetLink, go, replaceRoute, type Route, route } from './ui/route.ts'
import { BundleScreen } from './screens/bundle.tsx'
import { CatalogueScreen } from './screens/catalogue.tsx'
import { DemoScreen } from './screens/demo.tsx'
import { LoginScreen } from './screens/login.tsx'
import { FaultsScreen } from './screens/faults.tsx'
import { FleetScreen, isPaused } from './fleet/fleet-screen.tsx'
import { GatewayScreen } from './screens/gateway.tsx'
import { NewScreen } from './fleet/new-session-screen.tsx'
import { SessionScreen } from './turn/session-screen.tsx'
import { SystemScreen } from './screens/system.tsx'

export function App(): VNode {
  const here = route.value
  useKeys()
  if (login.value.kind === 'opening') return <p class="login muted">Opening…</p>
  if (login.value.kind === 'closed' && here.screen !== 'bundle') return <LoginScreen />
  return (
    <>
      <Top />
      <ConnectionBar />
      <main id="main">
        <Boundary what="this screen" json={here} key={here.screen}>
          {screenOf(here)}
        </Boundary>
      </main>
      <Announcer />
      <Help />
    </>
  )
}

// ---- details, in the order they are used above ----

function screenOf(here: Route): ComponentChildren {
  switch (here.screen) {
    case 'fleet':
      return <FleetScreen route={here} />
    case 'session':
      return <SessionScreen route={here} />
    case 'faults':
      return <FaultsScreen fingerprint={here.fingerprint} />
    case 'catalogue':
      return <CatalogueScreen category={here.category} />
    case 'system':
      return <SystemScreen />
    case 'new':
      return <NewScreen />
    case 'demo':
      return <DemoScreen />
    case 'gateway':
      return <GatewayScreen />
    case 'bundle':
      return <BundleScreen />
    case 'missing':
      return (
        <div class="page">
          <h1>There is no such page</h1>
          <p>
            <a href="#/">Back to the fleet</a>
          </p>
        </div>
      )
  }
}

function Top(): VNode {
  const here = route.value.screen
  const needs = fleet.value.counts['needs'] ?? 0
  const links = [
    { screen: 'fleet', href: '#/', word: 'Fleet', isHere: here === 'fleet' || here === 'session' || here === 'new' },
    { screen: 'faults', href: '#/faults', word: 'Faults', isHere: here === 'faults' || here === 'catalogue' },
    { screen: 'system', href: '#/system', word: 'System', isHere: here === 'system' },
    ...(system.value?.gateway === true
      ? [{ screen: 'gateway', href: '#/gateway', word: 'Gateway', isHere: here === 'gateway' }]
      : []),
    ...(system.value?.chaos === true
      ? [{ screen: 'demo', href: '#/demo', word: 'Demo', isHere: here === 'demo' }]
      : []),
  ]
  return (
    <header class="top">
      <a class="brand" href="#/">
        <Logo /> Breakfall
      </a>
      <nav aria-label="Screens">
        {links.map(({ screen, href, word, isHere }) => (
          <a key={screen} href={href} aria-current={isHere ? 'page' : undefined}>
            {word}
            {screen === 'fleet' && needs > 0 ? (
              <span class="count" aria-label={`${needs} need you`}>
                ▲{needs}
              </span>
            ) : null}
          </a>
        ))}
      </nav>
      <span class="spacer" />
      <Search />
      <LinkDot />
      <button type="button" class="quiet" onClick={() => (isHelpOpen.value = true)}>
        ? keys
      </button>
    </header>
  )
}

function Search(): VNode {
  const here = route.value
  useEffect(() => {
    searchText.value = here.screen === 'fleet' ? here.q : ''
  }, [here.screen, here.screen === 'session' ? here.id : ''])
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault()
        emit('turn', 'next-hit')
      }}
    >
      <input
        id="search"
        type="search"
        aria-label={here.screen === 'session' ? 'Search this turn' : 'Search sessions'}
        placeholder="/ search"
        value={searchText.value}
        onInput={(event) => {
          const text = event.currentTarget.value
          searchText.value = text
          if (here.screen === 'fleet') replaceRoute(fleetLink(here.filter, text))
          else if (here.screen !== 'session' && text !== '') go(fleetLink('', text))
        }}
        onKeyDown={(event) => {
          if (event.key === 'Enter' && event.shiftKey) {
            event.preventDefault()
            emit('turn', 'previous-hit')
          }
        }}
      />
    </form>
  )
}

const DOTS = {
  open: { glyph: '●', word: 'live', tone: 'finished' },
  connecting: { glyph: '◌', word: 'connecting', tone: 'cancelled' },
  silent: { glyph: '…', word: 'not answering', tone: 'retrying' },
  lost: { glyph: '↻', word: 'reconnecting', tone: 'retrying' },
  refused: { glyph: '✗', word: 'token refused', tone: 'failed' },
} as const

function LinkDot(): VNode {
  const { glyph, word, tone } = DOTS[link.state.value.kind]
  return (
    <span class={`dot tone-${tone}`} data-link={link.state.value.kind}>
      <span aria-hidden="true">{glyph}</span> {word}
    </span>
  )
}

function emit(name: string, detail?: unknown): void {
  dispatchEvent(new CustomEvent(`breakfall:${name}`, { detail }))
}

const ACTIONS: KeyActions = {
  go: (screen) => go(screen === 'fleet' ? '#/' : `#/${screen}`),
  back: () => {
    if (picked.peek() !== null) picked.value = null
    else if (route.peek().screen !== 'fleet') go('#/')
  },
  emit,
  copyLink: () => void copyText(location.href),
  toggleTimes: () => {
    isUtc.value = !isUtc.peek()
  },
  togglePause: () => {
    isPaused.value = !isPaused.peek()
  },
}

function useKeys(): void {
  useLayoutEffect(() => {
    const take = (event: KeyboardEvent): void => takeKey(event, ACTIONS)
    document.addEventListener('keydown', take)
    return () => document.removeEventListener('keydown', take)
  }, [])
}

function Help(): VNode {
  const dialog = useRef<HTMLDialogElement>(null)
  const isOpen = isHelpOpen.value
  useEffect(() => {
    if (isOpen) dialog.current?.showModal()
    else dialog.current?.close()
  }, [isOpen])
  return (
    <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (isHelpOpen.value = false)}>
      <h2 id="help-title">Keys</h2>
      <div class="keys">
        {KEYS.map(({ keys, does }) => (
          <div key={keys}>
            <span>{does}</span>
            <span class="nowrap">
              {keys.split(' ').map((key) => (
                <>
                  <kbd>{key}</kbd>{' '}
                </>
              ))}
            </span>
          </div>
        ))}
      </div>
      <div class="row">
        <label class="check">
          <input
            type="checkbox"
            checked={hasLetterKeys.value}
            onChange={(event) => setLetterKeys(event.currentTarget.checked)}
          />
          Single-letter keys
        </label>
        <span class="spacer" />
        <button type="button" onClick={() => (isHelpOpen.value = false)}>
          Close
        </button>
      </div>
    </dialog>
  )
}
