//! The names of events: an attribute that starts with `on` and one of them runs its value.

use std::sync::LazyLock;

use super::starts_with;

/// Events of HTML, SVG and the interfaces of browsers, past and present: those that libinjection knows, no
/// more and no fewer, which the tests hold to what `libinjectionrs` answers.
const NAMES: &str = "
    abort activate active addsourcebuffer addstream addtrack afterprint animationcancel
    animationend animationiteration animationstart audioend audioprocess audiostart autocomplete
    autocompleteerror beforeactivate beforecopy beforecut beforeinput beforeload beforepaste
    beforeprint beforeunload beginevent blocked blur boundary bufferedamountlow cached cancel
    canplay canplaythrough change chargingchange chargingtimechange checking click close complete
    compositionend compositionstart compositionupdate connect connecting connectionstatechange
    contextmenu controllerchange copy cuechange cut dataavailable datachannel dblclick devicechange
    devicemotion deviceorientation dischargingtimechange disconnect domactivate
    domcharacterdatamodified domcontentloaded domfocusin domfocusout domnodeinserted
    domnodeinsertedintodocument domnoderemoved domnoderemovedfromdocument domsubtreemodified
    downloading drag dragend dragenter dragleave dragover dragstart drop durationchange emptied
    encrypted end ended endevent enter enterpictureinpicture error exit fetch finish focus focusin
    focusout formchange forminput gamepadconnected gamepaddisconnected gesturechange gestureend
    gesturescrollend gesturescrollstart gesturescrollupdate gesturestart gesturetap gesturetapdown
    gotpointercapture hashchange icecandidate icecandidateerror iceconnectionstatechange
    icegatheringstatechange inactive input inputsourceschange install invalid keydown keypress
    keystatuseschange keyup languagechange leavepictureinpicture levelchange load loadeddata
    loadedmetadata loadend loading loadingdone loadingerror loadstart lostpointercapture mark
    merchantvalidation message messageerror mousedown mouseenter mouseleave mousemove mouseout
    mouseover mouseup mousewheel mute negotiationneeded nexttrack nomatch noupdate obsolete offline
    online open orientationchange overconstrained overflowchanged pagehide pageshow paste pause
    payerdetailchange paymentauthorized paymentmethodchange paymentmethodselected play playing
    pointercancel pointerdown pointerenter pointerleave pointerlockchange pointerlockerror
    pointermove pointerout pointerover pointerup popstate previoustrack processorerror progress
    propertychange ratechange readystatechange rejectionhandled remove removesourcebuffer
    removestream removetrack reset resize resourcetimingbufferfull result resume scroll search
    securitypolicyviolation seeked seeking select selectend selectionchange selectstart
    shippingaddresschange shippingcontactselected shippingmethodselected shippingoptionchange show
    signalingstatechange slotchange soundend soundstart sourceclose sourceended sourceopen
    speechend speechstart squeeze squeezeend squeezestart stalled start started statechange stop
    storage submit success suspend textinput timeout timeupdate toggle tonechange touchcancel
    touchend touchforcechange touchmove touchstart track transitioncancel transitionend
    transitionrun transitionstart uncapturederror unhandledrejection unload unmute update updateend
    updatefound updateready updatestart upgradeneeded validatemerchant versionchange
    visibilitychange volumechange waiting waitingforkey webglcontextchanged
    webglcontextcreationerror webglcontextlost webglcontextrestored webkitanimationend
    webkitanimationiteration webkitanimationstart webkitbeforetextinserted webkitbeginfullscreen
    webkitcurrentplaybacktargetiswirelesschanged webkitendfullscreen webkitfullscreenchange
    webkitfullscreenerror webkitkeyadded webkitkeyerror webkitkeymessage webkitmouseforcechanged
    webkitmouseforcedown webkitmouseforceup webkitmouseforcewillbegin webkitneedkey
    webkitnetworkinfochange webkitplaybacktargetavailabilitychanged webkitpresentationmodechanged
    webkitregionoversetchange webkitremovesourcebuffer webkitsourceclose webkitsourceended
    webkitsourceopen webkitspeechchange webkittransitionend webkitwillrevealbottom
    webkitwillrevealleft webkitwillrevealright webkitwillrevealtop wheel write writeend writestart
    zoom
";

/// The names in order. Of those that begin alike the shortest stands for all: what starts with `loadend`
/// starts with `load`.
static EVENTS: LazyLock<Vec<&'static [u8]>> = LazyLock::new(|| {
    let mut names: Vec<&[u8]> = NAMES.split_ascii_whitespace().map(str::as_bytes).collect();
    names.sort_unstable();
    names.dedup_by(|name, before| name.starts_with(before));
    names
});

/// Whether a text starts with the name of an event, in any case.
///
/// In order, a name stands before all texts that start with it, and nothing but such texts stands between
/// them: so the last name before a text is the only one that it can start with.
pub(super) fn starts_with_event(text: &[u8]) -> bool {
    let before = EVENTS.partition_point(|name| is_before(name, text));
    let last = before.checked_sub(1).and_then(|last| EVENTS.get(last));
    last.is_some_and(|name| starts_with(text, name))
}

/// Whether a name stands before a text in any case, or is that text.
fn is_before(name: &[u8], text: &[u8]) -> bool {
    #[cfg(test)]
    COMPARISONS.set(COMPARISONS.get() + 1);
    name.iter().copied().le(text.iter().map(u8::to_ascii_lowercase))
}

#[cfg(test)]
thread_local! {
    /// Names that were compared with a text: what a hostile value must not make many.
    static COMPARISONS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests;
